//! What `parachron watch` says of each disruption, beside what it was.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::facts::{self, Fact};
use super::in_time::{Try, in_time};
use super::line::{Heard, now_ns};
use super::session::{Generation, Session};
use super::ticks::seconds;
use crate::nested::checks::Check;

/// How long the guest is stopped, or lives on after it was saved.
const AWAY: Duration = Duration::from_secs(5);

/// How long it is waited for what `watch` says.
const PATIENCE: Duration = Duration::from_secs(10);

/// What else it says within this time of that belongs to the same disruption.
const AFTERWARDS: Duration = Duration::from_millis(1500);

/// A disruption is told within this time of the guest's going on, s.
const AT_ONCE_S: f64 = 1.0;

/// A size may be off by what the RTC's whole seconds leave open, and by the
/// looks of `watch`, s.
const SIZE_S: f64 = 1.1;

/// What was disturbed and what must be told of it.
struct Case<'a> {
    /// What was done.
    what: &'a str,
    /// The kinds that may be told; one of them must be.
    kinds: &'a [&'a str],
    /// How large it was, s, where that is told.
    size_s: Option<f64>,
}

/// One disruption as `watch` told it.
struct Told {
    kind: String,
    size_s: Option<f64>,
    evidence: Vec<String>,
    at_ns: i64,
}

/// Disturbs a guest in every way there is, with `watch` looking on.
pub(super) fn run(session: &mut Session, findings: &mut Findings) -> Result<(), String> {
    let Findings { checks, facts } = findings;
    session.ask("watch", "parachron watch --format json >$TELL 2>/tmp/watch.err &")?;
    let started = |heard: &Heard| object(heard).filter(|line| line["event"] == "started");
    session.telling.until(0, PATIENCE, started).ok_or("watch did not start")?;
    stops(session, checks, facts)?;
    moves(session, checks, facts)?;
    hands(session, checks)?;
    session.ask("watch-ends", "killall -INT parachron").map(drop)
}

/// Each clock source chosen, and the guest stopped on it.
fn stops(
    session: &mut Session,
    checks: &mut Vec<Check>,
    facts: &mut Vec<Fact>,
) -> Result<(), String> {
    for source in ["tsc", "acpi_pm", "hpet"] {
        let name = format!("stop, cont on {source}");
        let mut last = None;
        checks.push(in_time(|| {
            let from = session.telling.heard().len();
            let (fact, gap) = facts::fact(session, &name, |session| session.pause(AWAY))?;
            let size_s = Some(seconds(gap.resumed_ns - gap.stopped_ns));
            let case = Case { what: &name, kinds: &["pause"], size_s };
            last = Some(fact);
            Ok(judged(session, &case, from, gap.resumed_ns))
        })?);
        facts.extend(last);
        let next = match source {
            "tsc" => "acpi_pm",
            "acpi_pm" => "hpet",
            _ => "tsc",
        };
        let what = format!("echo {next} >current_clocksource");
        let case = Case { what: &what, kinds: &["source-switched"], size_s: None };
        by_hand(session, checks, &case, &format!("echo {next} >$CLOCKSOURCE"))?;
    }
    Ok(())
}

/// The guest in another QEMU; and put back in its own, of which only the
/// facts are told.
fn moves(
    session: &mut Session,
    checks: &mut Vec<Check>,
    facts: &mut Vec<Fact>,
) -> Result<(), String> {
    let (fact, _) =
        facts::fact(session, facts::IN_ITS_OWN_QEMU, |session| session.save_and_load(AWAY))?;
    facts.push(fact);
    thread::sleep(AFTERWARDS);
    for (name, generation, kinds) in [
        ("moved to another QEMU", Generation::Same, &["pause", "migrated"][..]),
        ("put back in another QEMU", Generation::Other, &["snapshot-restored"]),
    ] {
        let mut last = None;
        checks.push(in_time(|| {
            let (fact, gap) =
                facts::fact(session, name, |session| session.move_to_another(AWAY, generation))?;
            // Being saved stopped it, too, for a second: true, and not the point.
            let from = session.telling.since(gap.resumed_ns);
            let size_s = Some(seconds(gap.resumed_ns - gap.stopped_ns));
            let case = Case { what: name, kinds, size_s };
            last = Some(fact);
            Ok(judged(session, &case, from, gap.resumed_ns))
        })?);
        facts.extend(last);
    }
    Ok(())
}

/// What a person or a program in the guest does.
fn hands(session: &mut Session, checks: &mut Vec<Check>) -> Result<(), String> {
    let case = |what, kinds, size_s| Case { what, kinds, size_s };
    let set = case("the clock set by +30 s", &["clock-set"], Some(30.0));
    by_hand(session, checks, &set, "guest-clock step 30")?;
    let set = case("the clock set by -30 s", &["clock-set"], Some(30.0));
    by_hand(session, checks, &set, "guest-clock step -30")?;
    let steered = case("adjtimex: 50 ppm", &["steered"], None);
    by_hand(session, checks, &steered, "guest-clock frequency 50")?;
    let steered = case("adjtimex: 0 ppm", &["steered"], None);
    by_hand(session, checks, &steered, "guest-clock frequency 0")?;
    // Five seconds before a year's end, so that the kernel inserts a second.
    session.ask("new-year", "date -u -s '2027-12-31 23:59:55' && guest-clock leap insert")?;
    thread::sleep(AFTERWARDS);
    let leap = case("a second inserted at the year's end", &["leap-second"], Some(1.0));
    let from = session.telling.heard().len();
    let line = "while [ $(date -u +%Y) = 2027 ]; do usleep 10000; done";
    session.ask("leap", line)?;
    checks.push(judged(session, &leap, from, now_ns()).check);
    let now_s = now_ns() / 1_000_000_000;
    session.ask("leap-over", &format!("guest-clock leap none && date -u -s @{now_s}")).map(drop)
}

/// Has a line run that disturbs, and judges what is told of it.
fn by_hand(
    session: &mut Session,
    checks: &mut Vec<Check>,
    case: &Case<'_>,
    line: &str,
) -> Result<(), String> {
    let from = session.telling.heard().len();
    session.ask("by-hand", line)?;
    checks.push(judged(session, case, from, now_ns()).check);
    Ok(())
}

/// Waits for what is told of a disruption that was over at a moment.
fn judged(session: &mut Session, case: &Case<'_>, from: usize, over_ns: i64) -> Try {
    let expected = |heard: &Heard| Told::of(heard).filter(|told| case.kinds.contains(&&*told.kind));
    session.telling.until(from, PATIENCE, expected);
    thread::sleep(AFTERWARDS);
    let told: Vec<Told> = session.telling.heard()[from..].iter().filter_map(Told::of).collect();
    judge(case, &told, over_ns)
}

fn judge(case: &Case<'_>, told: &[Told], over_ns: i64) -> Try {
    let Case { what, kinds, size_s } = case;
    let size = size_s.map_or(String::new(), |size_s| format!(" of {size_s:.1} s"));
    let what = format!("watch: {what}: {}{size}, within {AT_ONCE_S} s", kinds.join(" or "));
    let one = |told: &Told| {
        let size = told.size_s.map_or(String::new(), |size_s| format!(" of {size_s:.3} s"));
        let after_s = seconds(told.at_ns - over_ns).max(0.0);
        format!("{}{size} after {after_s:.2} s by {}", told.kind, told.evidence.join(", "))
    };
    let found = told.iter().map(one).collect::<Vec<_>>().join("; ");
    let right = |told: &&Told| {
        let size = size_s.zip(told.size_s);
        kinds.contains(&&*told.kind)
            && size.is_none_or(|(size_s, told_s)| (told_s.abs() - size_s).abs() <= SIZE_S)
    };
    let is_right = told.iter().all(|told| right(&told)) && !told.is_empty();
    let holds = is_right && told.iter().all(|told| seconds(told.at_ns - over_ns) <= AT_ONCE_S);
    let found = if found.is_empty() { "nothing".to_owned() } else { found };
    Try { check: Check { what, found, holds }, only_late: is_right && !holds }
}

impl Told {
    fn of(heard: &Heard) -> Option<Self> {
        let line = object(heard).filter(|line| line["event"] == "disruption")?;
        let name = |evidence: &Value| evidence["what"].as_str().unwrap_or("?").to_owned();
        Some(Self {
            kind: line["kind"].as_str()?.to_owned(),
            size_s: line.pointer("/size/ns").and_then(Value::as_f64).map(|ns| ns / 1e9),
            evidence: line["evidence"].as_array()?.iter().map(name).collect(),
            at_ns: heard.at_ns,
        })
    }
}

/// The object that a line holds, if it does.
pub(super) fn object(heard: &Heard) -> Option<Value> {
    serde_json::from_str(&heard.line).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: &str = r#"{"event": "disruption", "kind": "pause", "size": {"ns": 5.4e9},
        "evidence": [{"what": "rtc", "gained_s": 5}]}"#;

    fn told(line: &str, at_s: f64) -> Told {
        let heard = Heard { at_ns: (at_s * 1e9) as i64, line: line.to_owned() };
        Told::of(&heard).unwrap()
    }

    #[test]
    fn what_was_told_in_time_and_size_holds() {
        let case = Case { what: "stop", kinds: &["pause"], size_s: Some(5.0) };
        let check = judge(&case, &[told(PAUSE, 7.5)], 7_000_000_000).check;
        assert_eq!(check.what, "watch: stop: pause of 5.0 s, within 1 s");
        assert_eq!(check.found, "pause of 5.400 s after 0.50 s by rtc");
        assert!(check.holds);
    }

    #[test]
    fn what_is_late_of_another_size_or_kind_does_not() {
        let case = Case { what: "stop", kinds: &["pause"], size_s: Some(5.0) };
        let judged = |told: &[Told]| judge(&case, told, 7_000_000_000);
        let outcome = |told: &[Told]| (judged(told).check.holds, judged(told).only_late);
        assert_eq!(outcome(&[told(PAUSE, 8.1)]), (false, true));
        let larger = PAUSE.replace("5.4e9", "6.2e9");
        assert_eq!(outcome(&[told(&larger, 7.5)]), (false, false));
        assert_eq!(outcome(&[told(&larger, 8.1)]), (false, false));
        let set = PAUSE.replace("\"pause\"", "\"clock-set\"");
        assert_eq!(outcome(&[told(&set, 7.5)]), (false, false));
        // A right one does not make up for a wrong one beside it.
        assert_eq!(outcome(&[told(PAUSE, 7.5), told(&set, 7.2)]), (false, false));
        assert_eq!(outcome(&[]), (false, false));
        assert_eq!(judged(&[]).check.found, "nothing");
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["tick 1 2 3 4", r#"{"event": "step"}"#, "[]", ""] {
            assert!(Told::of(&Heard { at_ns: 0, line: line.to_owned() }).is_none(), "{line}");
        }
    }
}
