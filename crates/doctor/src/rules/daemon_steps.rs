//! What a time daemon logged of a clock that it steps.

mod events;
mod readings;
mod single;
mod tools;

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::statements::named;
use crate::case::Case;
use crate::finding::Finding;
use crate::rule::{Check, Outcome};

/// More is no quartz and no calibration, and beyond what a daemon can slew, ppm.
const BEYOND_SLEW_PPM: f64 = 500.0;

/// Fewer steps are no rate.
const ENOUGH: usize = 3;

/// The same step, which two lines of a daemon report, s.
const SAME_STEP_S: f64 = 5.0;

/// `daemon-steps`
pub(crate) fn check_steps(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let steps = steps(log);
    let limit = single::beyond_limit(log, &steps);
    let mut findings = events::findings(log);
    // What a server or another program did explains the steps.
    let is_explained = findings.iter().any(|finding| finding.what.contains("contradict"));
    findings.extend(match regular(&steps) {
        _ if is_explained => None,
        Some(rate) => Some(gaining(&steps, rate)),
        None if limit.is_some() => limit,
        None => single::set_back(log, &steps)
            .or_else(|| single::refused(log, &steps))
            .or_else(|| single::step(log, &steps))
            .or_else(|| single::without_step(log)),
    });
    findings.extend(interference(case));
    if findings.is_empty() {
        findings.extend(events::no_source(log));
    }
    Outcome::findings_or_fine(findings, || match steps.as_slice() {
        [] => "no time daemon's step in the log".to_owned(),
        [one] => format!("one step, by {}", signed(one.by_s)),
        steps => {
            let largest = steps.iter().map(|step| step.by_s.abs()).fold(0.0, f64::max);
            format!(
                "{} steps at no regular rate, by up to {}",
                steps.len(),
                figures::seconds(largest)
            )
        }
    })
}

/// One step.
struct DaemonStep<'l> {
    at_s: Option<f64>,
    by_s: f64,
    line: &'l LogLine,
}

impl DaemonStep<'_> {
    /// `3.50 s ahead`
    fn side(&self) -> String {
        let side = if self.by_s > 0.0 { "behind" } else { "ahead" };
        format!("{} {side}", figures::seconds(self.by_s.abs()))
    }
}

/// All steps; `System clock wrong by` is followed by `System clock was stepped by`.
fn steps(log: &[LogLine]) -> Vec<DaemonStep<'_>> {
    let mut steps: Vec<DaemonStep<'_>> = Vec::new();
    for line in log {
        let LogEvent::DaemonStepped { by_s } = line.event else { continue };
        let is_same = steps.last().is_some_and(|last| {
            let near = last.at_s.zip(line.at_s).is_some_and(|(then, now)| now - then < SAME_STEP_S);
            near && (last.by_s - by_s).abs() < 0.01 * by_s.abs() + 0.1
        });
        // A log that was copied twice has each of its lines again.
        let is_copy = line.at_s.is_some()
            && steps.iter().any(|step| step.at_s == line.at_s && step.by_s == by_s);
        if !is_same && !is_copy {
            steps.push(DaemonStep { at_s: line.at_s, by_s, line });
        }
    }
    steps
}

/// The rate that steps in one direction amount to, ppm: positive where the clock is slow.
/// Two steps of -3.15 s that are 45 s apart: the clock gained 3.15 s in 45 s, 7 %.
fn regular(steps: &[DaemonStep<'_>]) -> Option<f64> {
    let (first, rest) = steps.split_first()?;
    let in_one_direction = rest.iter().all(|step| (step.by_s > 0.0) == (first.by_s > 0.0));
    if steps.len() < ENOUGH || !in_one_direction {
        return None;
    }
    let rates = steps.windows(2).filter_map(|pair| {
        let apart_s = pair[1].at_s? - pair[0].at_s?;
        (apart_s > 0.0).then(|| pair[1].by_s / apart_s * 1e6)
    });
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    let median = *rates.get(rates.len() / 2)?;
    // Steps after pauses have no common rate.
    let is_regular = rates.iter().all(|rate| (rate / median - 1.0).abs() < 0.5);
    (is_regular && median.abs() > BEYOND_SLEW_PPM).then_some(median)
}

fn gaining(steps: &[DaemonStep<'_>], rate_ppm: f64) -> Finding {
    let does = if rate_ppm < 0.0 { "gains" } else { "loses" };
    let percent = format!("{:.2}", rate_ppm.abs() / 1e4);
    named("gaining", &[("does", does.to_owned()), ("percent", percent)])
        .evidence_from(steps.iter().take(3).map(|step| daemon_evidence(step.line)))
        .evidence(format!("{} steps in one direction, {}", steps.len(), figures::ppm(rate_ppm)))
        .evidence_from(
            steps.first().map(|step| format!("first step: the clock was {}", step.side())),
        )
}

fn interference(case: &Case<'_>) -> Option<Finding> {
    let interferes = |event: &LogEvent| {
        matches!(event, LogEvent::ClockInterference | LogEvent::HostTimeJumped { .. })
    };
    let lines: Vec<_> = case.logged(interferes).collect();
    let first = lines.first()?;
    let finding = match first.event {
        LogEvent::HostTimeJumped { by_ns } => {
            let side = if by_ns > 0 { "behind" } else { "ahead" };
            let size = figures::time(by_ns.unsigned_abs() as f64);
            let by = figures::signed(by_ns as f64, figures::time);
            named("host-jumped", &[("by", by), ("off", format!("{size} {side}"))])
        }
        _ => named("interference", &[]),
    };
    Some(finding.evidence_from(lines.iter().take(3).map(|line| daemon_evidence(line))))
}

/// The message; its time is in the log that it is from.
fn daemon_evidence(line: &LogLine) -> String {
    format!("time daemon's log: {}", line.text.trim())
}

fn signed(s: f64) -> String {
    figures::signed(s, figures::seconds)
}

#[cfg(test)]
mod tests {
    use facts::kernel::pasted::PastedLog;
    use facts::{Fact, Facts};

    use crate::testing::{finding_text, fine, healthy_kvm_guest};

    fn guest(log: &str) -> Facts {
        let mut pasted = PastedLog::default();
        pasted.push(log.as_bytes());
        let mut facts = healthy_kvm_guest();
        facts.kernel.log = Fact::Known(pasted.finish().log);
        facts
    }

    /// As in microsoft/WSL#11790, 7 % fast: 3.15 s in 45 s.
    #[test]
    fn regular_steps_are_a_rate() {
        let line = |minute: u32, second: u32, by: &str| {
            format!(
                "2024-07-12T09:{minute:02}:{second:02}Z System clock was stepped by {by} seconds\n"
            )
        };
        let log = [line(0, 0, "-3.15"), line(0, 45, "-3.15"), line(1, 30, "-3.15")].concat();
        let text = finding_text(&guest(&log), None, "daemon-steps");
        assert!(text.starts_with("Error: The clock gains 7.00 %"), "{text}");
        assert!(
            text.contains("systemctl stop chronyd") && text.contains("not this guest"),
            "{text}"
        );
        // Steps after two pauses.
        let pauses = [line(0, 0, "60.0"), line(20, 45, "5.1"), line(50, 30, "900.0")].concat();
        let text = finding_text(&guest(&pauses), None, "daemon-steps");
        assert!(text.starts_with("Note: The time daemon found the clock 60.0 s behind"), "{text}");
        let slewed = guest(&line(0, 0, "0.004"));
        let fine = fine(&slewed, None, "daemon-steps");
        assert!(fine.starts_with("one step, by +4.00 ms"), "{fine}");
    }

    #[test]
    fn who_else_changes_the_clock_is_a_warning() {
        let log = "chronyd[1]: System clock interference detected\n";
        let text = finding_text(&guest(log), None, "daemon-steps");
        assert!(text.starts_with("Warning: Something other than the time daemon"), "{text}");
        let log = "00:00:10 timesync Radical host time change: 3 600 000 000 000ns (HostNow=1 ns\n";
        let text = finding_text(&guest(log), None, "daemon-steps");
        assert!(text.starts_with("Warning: The host's time jumped by +60.0 min"), "{text}");
    }
}
