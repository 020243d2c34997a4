//! What `parachron watch` reports of each disruption, compared with what it
//! was.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::channel::{Line, now_ns};
use super::effects;
use super::session::{Gap, Generation, Session};
use super::ticks::seconds;
use crate::checks::{self, Check, Checks};
use crate::outcome::Result;

/// How long the guest is stopped, or runs after it was saved.
const PAUSE: Duration = Duration::from_secs(5);

/// How long to wait for a report of `watch`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Further reports within this time belong to the same disruption.
const AFTERWARDS: Duration = Duration::from_millis(1500);

/// The limit between the guest's resumption and the report, s.
const LIMIT_S: f64 = 1.0;

/// How well the size of what was done is known from outside, s.
const KNOWN_S: f64 = 0.1;

/// A disruption and what must be reported of it.
struct Case<'a> {
    /// What was done.
    what: &'a str,
    /// The kind, or those that the evidence leaves, joined; ` or ` between two that are right.
    kinds: &'a str,
    /// How large it was, s, where that is reported.
    size_s: Option<f64>,
}

/// What stood while the RTC went on: nothing tells these apart, nor, where no other clock
/// shows anything, from an RTC that was set.
const STOOD: &str = "pause|snapshot-restored|migrated|rtc-set or pause|snapshot-restored|migrated";

impl Case<'_> {
    /// Whether a report's kinds are right.
    fn is(&self, kinds: &str) -> bool {
        self.kinds.split(" or ").any(|right| right == kinds)
    }
}

/// One disruption as `watch` reported it.
struct Reported {
    kind: String,
    /// With the bound that was stated, s.
    size_s: Option<(f64, f64)>,
    evidence: Vec<String>,
    at_ns: i64,
}

/// Causes every disruption while `watch` runs in the guest.
pub(super) fn run(session: &mut Session, findings: &mut Findings) -> Result {
    session.execute("watch", "parachron watch --format json >$OUTPUT 2>/tmp/watch.err &")?;
    let started = |line: &Line| line.object().filter(|event| event["event"] == "started");
    session.output.wait_for(0, TIMEOUT, started).ok_or("watch did not start")?;
    pauses(session, findings)?;
    restores(session, findings)?;
    clock_changes(session, &mut findings.checks)?;
    session.execute("watch-ends", "killall -INT parachron").map(drop)
}

/// A pause on each clock source, and the switch to the next.
fn pauses(session: &mut Session, findings: &mut Findings) -> Result {
    for (source, next) in [("tsc", "acpi_pm"), ("acpi_pm", "hpet"), ("hpet", "tsc")] {
        let name = format!("stop, cont on {source}");
        disrupt(session, findings, &name, STOOD, |session| {
            let from = session.output.lines().len();
            Ok((session.pause(PAUSE)?, from))
        })?;
        let what = format!("echo {next} >current_clocksource");
        let case = Case { what: &what, kinds: "source-switched", size_s: None };
        change(session, &mut findings.checks, &case, &format!("echo {next} >$CLOCKSOURCE"))?;
    }
    Ok(())
}

/// The guest restored in the QEMU that runs it, of which only the effect is
/// reported; and resumed in another QEMU.
fn restores(session: &mut Session, findings: &mut Findings) -> Result {
    let (effect, _) =
        effects::measure(session, effects::IN_SAME_QEMU, |session| session.save_and_load(PAUSE))?;
    findings.effects.push(effect);
    thread::sleep(AFTERWARDS);
    for (name, generation, kinds) in [
        ("migrated to another QEMU", Generation::Same, STOOD),
        ("restored in another QEMU", Generation::Other, "snapshot-restored"),
    ] {
        disrupt(session, findings, name, kinds, |session| {
            let gap = session.migrate(PAUSE, generation)?;
            // Saving stopped it too, for a second, which is also reported.
            Ok((gap, session.output.since(gap.resumed_ns)))
        })?;
    }
    Ok(())
}

/// Disrupts the guest: the effect on its clocks, and the reports from a line
/// on.
fn disrupt(
    session: &mut Session,
    findings: &mut Findings,
    what: &str,
    kinds: &str,
    disrupt: impl Fn(&mut Session) -> Result<(Gap, usize), String>,
) -> Result {
    let mut from = 0;
    let (effect, gap) = effects::measure(session, what, |session| {
        let (gap, first) = disrupt(session)?;
        from = first;
        Ok(gap)
    })?;
    let case = Case { what, kinds, size_s: Some(gap.pause_s()) };
    findings.checks.push(assess(session, &case, from, gap.resumed_ns));
    findings.effects.push(effect);
    Ok(())
}

/// Changes made in the guest, by a person or a program.
fn clock_changes(session: &mut Session, checks: &mut Checks) -> Result {
    let case = |what, kinds, size_s| Case { what, kinds, size_s };
    for (case, line) in [
        (case("the clock set by +30 s", "clock-set", Some(30.0)), "step 30"),
        (case("the clock set by -30 s", "clock-set", Some(30.0)), "step -30"),
        (case("adjtimex: 50 ppm", "steered", None), "frequency 50"),
        (case("adjtimex: 0 ppm", "steered", None), "frequency 0"),
    ] {
        change(session, checks, &case, &format!("guest-clock {line}"))?;
    }
    // Five seconds before a year's end, so that the kernel inserts a second.
    session.execute("new-year", "date -u -s '2027-12-31 23:59:55' && guest-clock leap insert")?;
    thread::sleep(AFTERWARDS);
    let leap = case("a second inserted at the year's end", "leap-second", Some(1.0));
    let from = session.output.lines().len();
    let line = "while [ $(date -u +%Y) = 2027 ]; do usleep 10000; done";
    session.execute("leap", line)?;
    checks.push(assess(session, &leap, from, now_ns()));
    let now_s = now_ns() / 1_000_000_000;
    session.execute("leap-over", &format!("guest-clock leap none && date -u -s @{now_s}")).map(drop)
}

/// Runs a command that changes a clock, and checks what is reported of it.
fn change(session: &mut Session, checks: &mut Checks, case: &Case<'_>, line: &str) -> Result {
    let from = session.output.lines().len();
    session.execute("change", line)?;
    checks.push(assess(session, case, from, now_ns()));
    Ok(())
}

/// Waits for the reports of a disruption that ended at a moment.
fn assess(session: &mut Session, case: &Case<'_>, from: usize, over_ns: i64) -> Check {
    let expected = |line: &Line| Reported::parse(line).filter(|found| case.is(&found.kind));
    session.output.wait_for(from, TIMEOUT, expected);
    thread::sleep(AFTERWARDS);
    let reported: Vec<Reported> =
        session.output.lines()[from..].iter().filter_map(Reported::parse).collect();
    judge(case, &reported, over_ns)
}

fn judge(case: &Case<'_>, reported: &[Reported], over_ns: i64) -> Check {
    let Case { what: cause, kinds, size_s } = case;
    let size = size_s.map_or(String::new(), |size_s| format!(" of {size_s:.1} s"));
    let what = format!("watch: {cause}: {}{size}, within {LIMIT_S} s", kinds);
    let one = |one: &Reported| {
        let size = one.size_s;
        let size =
            size.map_or(String::new(), |(s, bound_s)| format!(" of {s:.3} ± {bound_s:.3} s"));
        let after_s = seconds(one.at_ns - over_ns).max(0.0);
        format!("{}{size} after {after_s:.2} s by {}", one.kind, one.evidence.join(", "))
    };
    let found = reported.iter().map(one).collect::<Vec<_>>().join("; ");
    let correct = |one: &Reported| {
        let fits = |(told_s, bound_s): (f64, f64), true_s: f64| {
            (told_s.abs() - true_s).abs() <= bound_s + KNOWN_S
        };
        case.is(&one.kind)
            && size_s.is_none_or(|true_s| one.size_s.is_some_and(|told_s| fits(told_s, true_s)))
    };
    let is_correct = reported.iter().all(correct) && !reported.is_empty();
    let passed = is_correct && reported.iter().all(|one| seconds(one.at_ns - over_ns) <= LIMIT_S);
    let found = if found.is_empty() { "nothing".to_owned() } else { found };
    Check::new(what, found, passed)
}

impl Reported {
    fn parse(line: &Line) -> Option<Self> {
        let event = line.object()?;
        let seconds_of = |path| event.pointer(path).and_then(Value::as_f64).map(|ns| ns / 1e9);
        let name = |evidence: &Value| evidence["what"].as_str().unwrap_or("?").to_owned();
        Some(Self {
            kind: checks::kinds(&event)?,
            size_s: seconds_of("/size/ns").zip(seconds_of("/size/bound_ns")),
            evidence: event["evidence"].as_array()?.iter().map(name).collect(),
            at_ns: line.at_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"event": "disruption", "kinds": ["pause"], "size": {"ns": 5.4e9, "bound_ns": 1e9},
        "evidence": [{"what": "rtc", "gained_s": 5}]}"#;

    fn reported(text: &str, at_s: f64) -> Reported {
        let line = Line { at_ns: (at_s * 1e9) as i64, text: text.to_owned() };
        Reported::parse(&line).unwrap()
    }

    #[test]
    fn a_report_in_time_and_of_the_right_size_passes() {
        let case = Case { what: "stop", kinds: "pause", size_s: Some(5.0) };
        let check = judge(&case, &[reported(REPORT, 7.5)], 7_000_000_000);
        assert_eq!(check.what, "watch: stop: pause of 5.0 s, within 1 s");
        assert_eq!(check.found, "pause of 5.400 ± 1.000 s after 0.50 s by rtc");
        assert!(check.passed);
    }

    #[test]
    fn a_report_that_is_late_or_of_another_size_or_kind_fails() {
        let case = Case { what: "stop", kinds: "pause", size_s: Some(5.0) };
        let judged = |reported: &[Reported]| judge(&case, reported, 7_000_000_000);
        let passed = |reported: &[Reported]| judged(reported).passed;
        assert!(!passed(&[reported(REPORT, 8.1)]));
        let larger = REPORT.replace("5.4e9", "6.2e9");
        assert!(!passed(&[reported(&larger, 7.5)]));
        assert!(!passed(&[reported(&larger, 8.1)]));
        let set = REPORT.replace("\"pause\"", "\"clock-set\"");
        assert!(!passed(&[reported(&set, 7.5)]));
        // A correct report does not make up for a wrong one.
        assert!(!passed(&[reported(REPORT, 7.5), reported(&set, 7.2)]));
        assert!(!passed(&[]));
        assert_eq!(judged(&[]).found, "nothing");
    }

    #[test]
    fn other_lines_are_not_reports() {
        for text in ["tick 1 2 3 4", r#"{"event": "step"}"#, "[]", ""] {
            let line = Line { at_ns: 0, text: text.to_owned() };
            assert!(Reported::parse(&line).is_none(), "{text}");
        }
    }
}
