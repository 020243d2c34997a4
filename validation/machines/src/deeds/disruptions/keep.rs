//! `parachron keep` in a guest whose clock it may set: after each disruption
//! the guest's time of day is compared with this machine's, tick by tick.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::channel::{Line, now_ns};
use super::session::{Gap, Generation, Session};
use super::ticks::{self, Tick, seconds};
use crate::checks::{Check, Checks};
use crate::deeds::server::Server;
use crate::outcome::Result;

/// Its command line, with the port of the NTP server after it.
pub(super) const COMMAND: &str = "parachron keep --format json --ntp 10.0.2.2:";

/// For repeated attempts: the guest's clocks stop while it is paused, so the
/// usual limits would be reached.
const OFTEN: &str = "--burst 20 --min-interval 1s --poll 8s";

/// Events that state the clock's offset.
const JUDGED: [&str; 3] = ["synchronised", "corrected", "refused"];

/// How long the guest is stopped.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// How long its clock is observed afterwards.
const OBSERVATION: Duration = Duration::from_secs(3);

/// How long to wait for an event of keep.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How long ticks are collected to measure an offset.
const SAMPLING: Duration = Duration::from_millis(500);

/// The clock must be correct within this time, s.
const LIMIT_S: f64 = 1.0;

/// The offset of a correct clock, at most, s: ticks are delayed while this
/// machine is busy.
pub(super) const CORRECT_S: f64 = 0.05;

/// A slew moves the clock by 500 µs a second at most (adjtimex(2)), far less
/// than this between two ticks, s.
const SLEW_S: f64 = 0.005;

/// Every correction, one after another.
pub(super) fn run(session: &mut Session, servers: &[Server; 2], checks: &mut Checks) -> Result {
    // One alone may not correct more than a second.
    let keep = format!("{COMMAND}{} --ntp 10.0.2.2:{}", servers[0].port, servers[1].port);
    pauses(session, &keep, checks)?;
    small(session, &keep, checks)?;
    ahead(session, &keep, checks)?;
    checks.push(dry_run(session, &keep)?);
    Ok(())
}

/// Sets the clock to an offset from this machine's time, s.
pub(super) fn set_ahead(session: &mut Session, wanted_s: f64) -> Result {
    let ticks = session.ticks_for(SAMPLING);
    let ahead_s = ticks::ahead_s(&ticks, 0).ok_or("the guest printed no clock readings")?;
    session.execute("set", &format!("guest-clock step {:.6}", wanted_s - ahead_s)).map(drop)
}

/// Starts keep, and waits until it states the offset; the index of its first
/// line.
pub(super) fn start(session: &mut Session, keep: &str) -> Result<usize, String> {
    let from = session.output.lines().len();
    session.execute("keep", &format!("{keep} >$OUTPUT 2>/tmp/keep.err & echo $! >/tmp/keep"))?;
    let judged = |line: &Line| {
        let event = line.object()?;
        JUDGED.iter().any(|name| event["event"] == **name).then_some(())
    };
    match session.output.wait_for(from, TIMEOUT, judged) {
        Some(_) => Ok(from),
        None => {
            let errors = session.execute("keep-errors", "cat /tmp/keep.err")?;
            let events = events(session, from).join(", ");
            Err(format!("keep did not state the offset; its output: {events} {errors}"))
        }
    }
}

/// Ends it with a signal.
pub(super) fn end(session: &mut Session, signal: &str) -> Result {
    session.execute("keep-ends", &format!("kill -{signal} $(cat /tmp/keep)"))?;
    thread::sleep(SAMPLING);
    Ok(())
}

/// A pause, and a restored snapshot.
fn pauses(session: &mut Session, keep: &str, checks: &mut Checks) -> Result {
    let keep = format!("{keep} {}", OFTEN);
    start(session, &keep)?;
    let gap = session.pause(PAUSE)?;
    checks.push(corrected(session, "stop, cont", gap));
    let gap = session.migrate(PAUSE, Generation::Other)?;
    checks.push(corrected(session, "restored from a snapshot", gap));
    end(session, "TERM")
}

/// The clock is correct soon after the guest resumed.
fn corrected(session: &mut Session, what: &str, gap: Gap) -> Check {
    let from = session.output.lines().len();
    thread::sleep(OBSERVATION);
    let ticks = session.ticks_since(gap.resumed_ns);
    let what = format!("keep: {what}: correct within {LIMIT_S} s, to {CORRECT_S} s");
    let reported = events(session, from.saturating_sub(20)).join(", ");
    let (found, after_s) = correction(&ticks, gap, &reported);
    Check::new(what, found, after_s <= LIMIT_S)
}

/// What ticks show of a correction after a gap; and how long it took, s,
/// infinite where the clock is not correct at the end.
pub(super) fn correction(ticks: &[Tick], gap: Gap, reported: &str) -> (String, f64) {
    let first_s = ticks.first().map_or(f64::NAN, Tick::ahead_s);
    let after_s = ticks::correct_from(ticks, CORRECT_S)
        .map_or(f64::INFINITY, |tick| seconds(tick.at_ns - gap.resumed_ns));
    let after = if after_s.is_finite() {
        format!("correct after {after_s:.3} s")
    } else {
        "never correct".to_owned()
    };
    let found = format!(
        "paused for {:.3} s, {first_s:.3} s ahead at first; {after}, \
         {:.1} ms ahead at the end; {reported}",
        gap.pause_s(),
        ticks::left_s(ticks) * 1e3
    );
    (found, after_s)
}

/// A small offset is slewed; a keep that is killed meanwhile changes nothing
/// permanently.
fn small(session: &mut Session, keep: &str, checks: &mut Checks) -> Result {
    set_ahead(session, -0.05)?;
    let from_ns = now_ns();
    let from = start(session, keep)?;
    thread::sleep(OBSERVATION);
    let ticks = session.ticks_since(from_ns);
    checks.push(slews(session, "keep: 50 ms behind: slewed, not stepped", from, &ticks, 1.0));
    end(session, "KILL")?;
    let after = session.ticks_for(OBSERVATION);
    let steered = session.execute("adjtimex", "adjtimex")?;
    let setting = |name: &str| {
        let mut lines = steered.lines().map(str::trim);
        lines.find(|line| line.contains(name)).unwrap_or("not printed").to_owned()
    };
    let (frequency, tick) = (setting("freq.adjust:"), setting("tick:"));
    let step_s = ticks::largest_step_s(&after);
    let ends = |line: &str, value: &str| line.split_whitespace().any(|word| word == value);
    checks.push(Check::new(
        "keep: killed during a slew: no step, and the kernel's frequency is unchanged",
        format!("a step of at most {:.3} ms; {frequency}; {tick}", step_s * 1e3),
        step_s <= SLEW_S && ends(&frequency, "0") && ends(&tick, "10000"),
    ));
    Ok(())
}

/// A slew in the right direction: `sign` is 1 if the clock must gain.
fn slews(session: &mut Session, what: &str, from: usize, ticks: &[Tick], sign: f64) -> Check {
    let gained_s = match (ticks.first(), ticks.last()) {
        (Some(first), Some(last)) => {
            let on_raw = |tick: &Tick| tick.clocks_ns[0] - tick.clocks_ns[3];
            seconds(on_raw(last) - on_raw(first))
        }
        _ => f64::NAN,
    };
    let step_s = ticks::largest_step_s(ticks);
    let reported = events(session, from);
    let found = format!(
        "a step of at most {:.3} ms; gained {:.3} ms in {:.1} s; {}",
        step_s * 1e3,
        gained_s * 1e3,
        ticks.len() as f64 * 0.02,
        reported.join(", ")
    );
    let passed =
        step_s <= SLEW_S && gained_s * sign > 0.0 && reported.iter().any(|s| s.contains("slew"));
    Check::new(what, found, passed)
}

/// Far ahead: set back, unless that is forbidden.
fn ahead(session: &mut Session, keep: &str, checks: &mut Checks) -> Result {
    // Before it starts: what another process sets afterwards it does not undo.
    set_ahead(session, 2.0)?;
    let from_ns = now_ns();
    let from = start(session, &format!("{keep} --never-backward"))?;
    let slewed = |line: &Line| line.object().filter(|event| event["how"] == "slew");
    session.output.wait_for(from, TIMEOUT, slewed);
    thread::sleep(OBSERVATION);
    let ticks = session.ticks_since(from_ns);
    let backward_s = ticks::backward_s(&ticks);
    let what = "keep --never-backward: 2 s ahead: slowed, never set back";
    let mut check = slews(session, what, from, &ticks, -1.0);
    check.found = format!("{} ticks, {backward_s} s back; {}", ticks.len(), check.found);
    check.passed &= backward_s == 0.0 && !ticks.is_empty();
    checks.push(check);
    end(session, "TERM")?;
    // 2 s ahead at its start, and allowed to set the clock back.
    let from = start(session, keep)?;
    let ticks = session.ticks_for(SAMPLING);
    let ahead_s = ticks::ahead_s(&ticks, 0).unwrap_or(f64::NAN);
    checks.push(Check::new(
        format!("keep: 2 s ahead at its start: set back, correct to {CORRECT_S} s"),
        format!("{:.1} ms ahead; {}", ahead_s * 1e3, events(session, from).join(", ")),
        ahead_s.abs() <= CORRECT_S,
    ));
    end(session, "TERM")
}

/// Reports what it would do, and changes nothing.
fn dry_run(session: &mut Session, keep: &str) -> Result<Check, String> {
    set_ahead(session, -3.0)?;
    let from_ns = now_ns();
    let from = start(session, &format!("{keep} --dry-run"))?;
    thread::sleep(OBSERVATION);
    end(session, "TERM")?;
    let ticks = session.ticks_since(from_ns);
    let ahead_s = ticks::ahead_s(&ticks, 0).unwrap_or(f64::NAN);
    let step_s = ticks::largest_step_s(&ticks);
    let reported = events(session, from).join(", ");
    Ok(Check::new(
        "keep --dry-run: 3 s behind: reports it, changes nothing",
        format!("{ahead_s:.3} s ahead, a step of {:.3} ms; {reported}", step_s * 1e3),
        (ahead_s + 3.0).abs() <= CORRECT_S && step_s <= SLEW_S,
    ))
}

/// The events of keep from a line on, without its first and last.
pub(super) fn events(session: &mut Session, from: usize) -> Vec<String> {
    let objects = session.output.lines()[from..].iter().filter_map(Line::object);
    objects
        .filter_map(|event| {
            let word = |key: &str| event.get(key).and_then(Value::as_str);
            let ms = event.get("by_ns").and_then(Value::as_f64).map(|ns| ns / 1e6);
            let by = ms.map_or(String::new(), |ms| format!(" by {ms:.1} ms"));
            let name = match word("event")? {
                "started" | "summary" => return None,
                "corrected" => word("how")?,
                other => other,
            };
            let source = word("source").map_or(String::new(), |source| format!(" ({source})"));
            let cause = event.get("cause").map_or(String::new(), cause_of);
            Some(format!("{name}{by}{source}{cause}"))
        })
        .collect()
}

/// A cause in JSON is a word, or a word with its object.
fn cause_of(cause: &Value) -> String {
    let parts = cause.to_string();
    let words = parts.split(['{', '}', '[', ']', ',', '"', ':']).filter(|word| !word.is_empty());
    match cause {
        Value::Null => String::new(),
        _ => format!("; {}", words.collect::<Vec<_>>().join(": ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_as_words() {
        let printed = |text: &str| cause_of(&serde_json::from_str(text).unwrap());
        assert_eq!(printed(r#""start""#), "; start");
        assert_eq!(printed(r#"{"source-moved": "rtc"}"#), "; source-moved: rtc");
        assert_eq!(printed("null"), "");
    }
}
