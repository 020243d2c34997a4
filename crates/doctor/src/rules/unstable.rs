//! The TSC marked unstable: the causes, distinguished by the log's figures.
//!
//! The kernel's watchdog compares the TSC with another clock every half
//! second and marks it unstable for good when the two differ too much in one
//! interval (kernel/time/clocksource.c). That shows that they differed, not
//! which was wrong: up to Linux 7.0 a late check whose reference wraps, or a
//! late read, can condemn a TSC without fault; the watchdog as rewritten for
//! 7.1 drops late checks. The figures in the log mostly show the cause.

mod cause;
mod context;
mod counter;
mod damage;
mod explanation;
mod infer;
mod interval;
mod rate;
mod skew;

use facts::kernel::{LogEvent, LogLine};

use self::cause::UnstableCause;
pub(super) use self::context::lost_tick_signs;
use self::interval::WatchdogInterval;
use crate::case::trust::is_tsc;
use crate::case::{Case, log_evidence};
use crate::fault;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome};
use crate::rules::statements::{named, named_for};
use crate::text;
use instruments::figures;

/// `tsc-marked-unstable`
pub(crate) fn check_marked(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let Some(at) = verdict_line(log) else {
        return Outcome::fine("the kernel log does not mark the TSC unstable");
    };
    let because = reason(&log[at]);
    // Hyper-V's page is used instead, as it should be.
    if because.contains("running on Hyper-V") {
        return Outcome::fine("normal under Hyper-V without an invariant TSC");
    }
    if because.contains("boot parameter") {
        return Outcome::fine("marked unstable by a parameter on the kernel command line");
    }
    let interval = WatchdogInterval::parse_after(case, log, at);
    let cause = UnstableCause::infer(case, log, at, because, interval.as_ref());
    // The kernel assumes it of each such CPU model; the page stands in for it.
    if cause == UnstableCause::NotSynchronised && severity(case) == Severity::Note {
        return Outcome::fine(
            "normal without constant_tsc; the clock source is the hypervisor's page",
        );
    }
    let marked = marked_clock(&log[at]);
    let is_tsc = matches!(marked, "TSC" | TEST_CLOCK);
    let reference = interval.as_ref().map(WatchdogInterval::reference_name);
    let in_use = clock_in_use(log).filter(|_| marked == "TSC").map(|name| {
        let may_hit = reference == Some(name) && cause.may_be_references();
        let hit = if may_hit { "may have been hit by it" } else { "was not hit by it" };
        format!("The clock source in use was {name}, so the time of day {hit}.")
    });
    let consequence = match marked {
        TEST_CLOCK => "The TSC is not affected.",
        "TSC" => "Until the next boot the kernel does not use the TSC, the cheapest clock source.",
        _ => "The kernel does not use that clock source until the next boot.",
    };
    // The causes are worded for the TSC, which nearly all of these lines are about.
    let with_name = |text: String| {
        let names = ["the TSC", "The TSC", "TSC"].into_iter().filter(|_| !is_tsc);
        names.fold(text, |text, name| text.replace(name, marked))
    };
    let the = match marked {
        "TSC" => "the ",
        TEST_CLOCK => "",
        _ => "clock source ",
    };
    let is_writer = |line: &&LogLine| matches!(line.event, LogEvent::CounterWriter { .. });
    let writers: Vec<_> = log[..at].iter().filter(is_writer).take(1).collect();
    let (name, values) = explanation::entry(&cause);
    let by_page = matches!(cause, UnstableCause::Stopped { by_page: true, .. });
    let is_guest = if by_page { Some(true) } else { case.is_guest() };
    let entry = named_for(name, &values, is_guest);
    let why = match entry.why.split_once("At fault: ") {
        Some((why, _)) if !writers.is_empty() => format!("{why}{}", fault::TOOL),
        _ => entry.why,
    };
    let why = format!("{why} {}", in_use.as_deref().unwrap_or(consequence));
    Finding::new(
        severity(case),
        format!("The kernel marked {the}{marked} unstable: {}", entry.what),
    )
    .evidence_from(evidence(log, at))
    .evidence_from(interval.iter().flat_map(WatchdogInterval::sums).map(with_name))
    .evidence_from(cause.context(case, log, at))
    .evidence_from(writers.iter().map(|line| {
        format!("{}: this program writes the CPU's frequency or counter", log_evidence(line))
    }))
    .explain(with_name(why))
    .remedies(explanation::remedies(&cause, case, is_tsc, entry.remedies))
    .alone()
}

/// `'xen' (not 'tsc') is current clocksource`
fn clock_in_use(log: &[LogLine]) -> Option<&str> {
    log.iter().find_map(|line| match &line.event {
        LogEvent::Switched { to } if line.text.contains("(not '") => Some(to.as_str()),
        _ => None,
    })
}

/// The clock source of the kernel's own test.
const TEST_CLOCK: &str = "its test clock source";

/// The clock source's name, for people.
fn marked_clock(line: &LogLine) -> &str {
    match &line.event {
        LogEvent::MarkedUnstable { clocksource, .. } if is_test_clock(clocksource) => TEST_CLOCK,
        LogEvent::MarkedUnstable { clocksource, .. } if !is_tsc(clocksource) => clocksource,
        _ => "TSC",
    }
}

/// `watchdog-late`
pub(crate) fn check_late(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let delays = |line: &&LogLine| {
        matches!(line.event, LogEvent::WatchdogDelayed { .. } | LogEvent::WatchdogSkipped { .. })
    };
    let all: Vec<_> = log.iter().filter(delays).collect();
    let late: Vec<_> = all.iter().copied().filter(|line| case.is_recent(line)).collect();
    let (Some(first), Some(last)) = (late.first(), late.last()) else {
        return Outcome::fine(match all.last().and_then(|line| case.age_s(line)) {
            Some(age_s) => format!(
                "no late check in the last 24 h; the last one {} ago",
                figures::seconds(age_s)
            ),
            None => "the kernel read the clock sources in time for all its checks".to_owned(),
        });
    };
    let worst = late.iter().filter_map(|line| match line.event {
        LogEvent::WatchdogDelayed { delay_ns } => delay_ns,
        LogEvent::WatchdogSkipped { clock_ns, reference_ns } => Some(clock_ns.max(reference_ns)),
        _ => None,
    });
    // One check writes up to two lines.
    const CHECKS_APART_S: f64 = 0.25;
    let follows = |two: &&[&LogLine]| {
        two[0].at_s.zip(two[1].at_s).is_some_and(|(one, next)| next - one < CHECKS_APART_S)
    };
    let checks = late.len() - late.windows(2).filter(follows).count();
    let mut what = format!(
        "The kernel's check of the clock source was late or skipped {}",
        text::count(checks, "time", "times")
    );
    if let Some(worst_ns) = worst.max() {
        what = format!("{what}, by up to {}", figures::time(worst_ns as f64));
    }
    let mut finding = Finding::new(Severity::Note, what).evidence(log_evidence(first));
    if late.len() > 1 {
        finding = finding.evidence(log_evidence(last));
    }
    let suppressed = log.iter().filter(|line| case.is_recent(line));
    let suppressed = suppressed.filter_map(|line| match line.event {
        LogEvent::WatchdogSuppressed { messages } => Some(messages),
        _ => None,
    });
    let suppressed = suppressed.fold(0, u64::saturating_add);
    if suppressed > 0 {
        finding = finding.evidence(format!(
            "kernel log: it left out {} more messages of the watchdog",
            figures::count(suppressed)
        ));
    }
    if let Some((line, by_ns)) = late.iter().find_map(|line| Some((line, pause_ns(line)?))) {
        return paused(log_evidence(line), by_ns).alone();
    }
    let lengths = late.iter().find_map(|line| agreement(line));
    let is_long = lengths.is_some();
    let finding = finding.evidence_from(lengths);
    if is_long {
        return agree(case, finding);
    }
    read_slowly(case, finding)
}

/// A check that came late, of two clocks that agree.
fn agree(case: &Case<'_>, finding: Finding) -> Check {
    let entry = named("watchdog-agree", &[]);
    finding
        .explain(entry.why)
        .remedies(entry.remedies)
        .remedies(explanation::not_at_fault(case))
        .alone()
}

/// Reads that took too long.
fn read_slowly(case: &Case<'_>, finding: Finding) -> Check {
    let reason = if case.is_guest() == Some(true) {
        "because the host was busy or emulates that clock slowly"
    } else {
        "because of firmware (SMI), a busy bus, or an HPET that many CPUs read"
    };
    let entry = named_for("watchdog-slow", &[("reason", reason.to_owned())], case.is_guest());
    let trapped = "See the finding tsc-trapped: Xen emulates each of those reads.";
    let remedies =
        if case.xen_emulates_tsc() { vec![Remedy::advice(trapped)] } else { entry.remedies };
    finding.explain(entry.why).remedies(remedies).alone()
}

/// The two lengths of a check that was skipped: by the TSC, and by the reference.
fn lengths_ns(line: &LogLine) -> Option<(f64, f64)> {
    match line.event {
        LogEvent::WatchdogSkipped { clock_ns, reference_ns } => {
            Some((clock_ns as f64, reference_ns as f64))
        }
        _ => None,
    }
}

/// By how much the TSC ran on while its reference counted the usual half second: the
/// hypervisor's clock stands still in a guest that is stopped.
fn pause_ns(line: &LogLine) -> Option<f64> {
    let (tsc_ns, reference_ns) = lengths_ns(line)?;
    let is_usual = (0.4e9..0.65e9).contains(&reference_ns);
    (is_usual && tsc_ns > 2.0 * reference_ns).then_some(tsc_ns - reference_ns)
}

fn paused(evidence: String, by_ns: f64) -> Finding {
    named("watchdog-paused", &[("by", figures::time(by_ns))])
        .evidence(evidence)
        .evidence(format!("TSC minus reference: {}", figures::signed(by_ns, figures::time)))
}

/// `skipping watchdog check: cs_nsec: 7623994708 wd_nsec: 7623993107`: by how much the two
/// differ, where they agree to within the daemon's 500 ppm.
fn agreement(line: &LogLine) -> Option<String> {
    let (tsc_ns, reference_ns) = lengths_ns(line)?;
    let by_ns = tsc_ns - reference_ns;
    (reference_ns > 0.0 && by_ns.abs() < reference_ns * 5e-4).then(|| {
        format!(
            "TSC minus reference: {} in {}, {} later than the usual 0.5 s",
            figures::signed(by_ns, figures::time),
            figures::time(reference_ns),
            figures::time(reference_ns - 0.5e9)
        )
    })
}

/// Whether the kernel marked the TSC unstable for a reason that speaks against
/// it: neither a parameter nor a check that failed by itself.
pub(crate) fn condemned(case: &Case<'_>) -> bool {
    let Ok(log) = case.log() else { return false };
    verdict_line(log).is_some_and(|at| {
        let because = reason(&log[at]);
        let interval = WatchdogInterval::parse_after(case, log, at);
        !because.contains("boot parameter")
            && !UnstableCause::infer(case, log, at, because, interval.as_ref()).acquits()
    })
}

/// The line that marked the TSC unstable: of several, one with a cause. Otherwise the one that
/// marked the clock source of the kernel's own test.
fn verdict_line(log: &[LogLine]) -> Option<usize> {
    let position = |matches: &dyn Fn(&str, &str) -> bool| {
        log.iter().position(|line| match &line.event {
            LogEvent::MarkedUnstable { clocksource, because } => matches(clocksource, because),
            _ => false,
        })
    };
    // arch/x86/kernel/tsc.c repeats the watchdog's verdict in another line, without a cause.
    let has_cause = |because: &str| !because.contains("clocksource watchdog");
    position(&|clocksource, because| is_tsc(clocksource) && has_cause(because))
        .or_else(|| position(&|clocksource, _| is_tsc(clocksource)))
        .or_else(|| position(&|_, _| true))
}

/// The clock source of the kernel's own test (kernel/time/clocksource-wdtest.c).
fn is_test_clock(clocksource: &str) -> bool {
    clocksource.starts_with("wdtest")
}

/// The kernel's reason.
fn reason(line: &LogLine) -> &str {
    match &line.event {
        LogEvent::MarkedUnstable { because, .. } => because,
        _ => "",
    }
}

/// The verdict's line and the lines with its figures.
fn evidence(log: &[LogLine], at: usize) -> Vec<String> {
    let figures = log[at + 1..].iter().take(4).filter(|line| {
        matches!(line.event, LogEvent::WatchdogInterval { .. } | LogEvent::Skew { .. })
    });
    std::iter::once(&log[at]).chain(figures).map(log_evidence).collect()
}

/// A warning where the TSC would be the clock source; a note where the
/// hypervisor's page is.
fn severity(case: &Case<'_>) -> Severity {
    match case.current() {
        Ok("kvm-clock" | "hyperv_clocksource_tsc_page" | "xen") => Severity::Note,
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests;
