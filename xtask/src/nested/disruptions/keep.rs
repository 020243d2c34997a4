//! `parachron keep` in a guest whose clock it may set: after each disruption
//! the guest's time of day beside this machine's, heard tick by tick.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::in_time::{Try, in_time};
use super::line::{Heard, now_ns};
use super::session::{Gap, Generation, Session};
use super::ticks::{self, Tick, seconds};
use super::watch::object;
use crate::nested::checks::Check;

/// How long the guest is away.
pub(super) const AWAY: Duration = Duration::from_secs(10);

/// How long its clock is looked at afterwards.
const LOOK: Duration = Duration::from_secs(3);

/// How long it is waited for a line of keep's.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long ticks are gathered to see how the clock stands.
const GLANCE: Duration = Duration::from_millis(500);

/// What says how the clock stands, as keep sees it.
const JUDGED: [&str; 3] = ["synchronised", "corrected", "refused"];

/// The clock must be right within this time, s.
const AT_ONCE_S: f64 = 1.0;

/// Right is what is off by no more than this, s: ticks come late while this
/// machine is busy.
pub(super) const RIGHT_S: f64 = 0.05;

/// A slew moves the clock by 500 µs a second at most (adjtimex(2)), far less
/// than this between two ticks, s.
const SLEW_S: f64 = 0.005;

/// The NTP server beside the guest, with this machine's time. It ends with its
/// standard input.
pub(super) struct Server {
    child: Child,
    /// Its port on the guest's 10.0.2.2.
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start(program: &Path) -> Result<Self, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| cannot(&error))?;
        let mut line = String::new();
        let out = child.stdout.as_mut().map(BufReader::new);
        let read = out.map(|mut out| out.read_line(&mut line)).transpose();
        read.map_err(|error| cannot(&error))?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Self { child, port: port.ok_or_else(|| cannot(&format!("no port but {line:?}")))? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself; how is of no matter.
        let _ = self.child.wait();
    }
}

/// All that keep does, one after another.
pub(super) fn run(
    session: &mut Session,
    server: &Server,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let keep = format!("parachron keep --ntp 10.0.2.2:{} --format json", server.port);
    away(session, &keep, checks)?;
    small(session, &keep, checks)?;
    ahead(session, &keep, checks)?;
    checks.push(dry_run(session, &keep)?);
    Ok(())
}

/// Puts the clock that far ahead of this machine's time, s.
pub(super) fn put(session: &mut Session, wanted_s: f64) -> Result<(), String> {
    let from_ns = now_ns();
    thread::sleep(GLANCE);
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let ahead_s = ticks::ahead_s(&ticks, 0).ok_or("the guest told no time")?;
    session.ask("put", &format!("guest-clock step {:.6}", wanted_s - ahead_s)).map(drop)
}

/// Starts keep, and waits until it says how the clock stands; its first line.
pub(super) fn start(session: &mut Session, keep: &str) -> Result<usize, String> {
    let from = session.telling.heard().len();
    session.ask("keep", &format!("{keep} >$TELL 2>/tmp/keep.err & echo $! >/tmp/keep"))?;
    let begun = |heard: &Heard| {
        let line = object(heard)?;
        JUDGED.iter().any(|event| line["event"] == **event).then_some(())
    };
    match session.telling.until(from, PATIENCE, begun) {
        Some(_) => Ok(from),
        None => {
            let said = session.ask("keep-said", "cat /tmp/keep.err")?;
            let heard = lines(session, from).join(", ");
            Err(format!("keep did not say how the clock stands, but {heard} {said}"))
        }
    }
}

/// Ends it with a signal.
pub(super) fn end(session: &mut Session, signal: &str) -> Result<(), String> {
    session.ask("keep-ends", &format!("kill -{signal} $(cat /tmp/keep)"))?;
    thread::sleep(GLANCE);
    Ok(())
}

/// Stopped, and put back from an earlier time.
fn away(session: &mut Session, keep: &str, checks: &mut Vec<Check>) -> Result<(), String> {
    // Where something is tried again, no more steps and requests are made than
    // are allowed: the guest's time stands while it is away.
    let keep = format!("{keep} --burst 20 --min-interval 1s --poll 8s");
    start(session, &keep)?;
    checks.push(in_time(|| {
        let gap = session.pause(AWAY)?;
        Ok(right_again(session, "stop, cont", gap))
    })?);
    checks.push(in_time(|| {
        let gap = session.move_to_another(AWAY, Generation::Other)?;
        Ok(right_again(session, "put back from a snapshot", gap))
    })?);
    end(session, "TERM")
}

/// The clock is right soon after the guest goes on.
fn right_again(session: &mut Session, what: &str, gap: Gap) -> Try {
    let from = session.telling.heard().len();
    thread::sleep(LOOK);
    let ticks = ticks::between(session.telling.heard(), gap.resumed_ns, now_ns());
    let what = format!("keep: {what}: right within {AT_ONCE_S} s, to {RIGHT_S} s");
    let away_s = seconds(gap.resumed_ns - gap.stopped_ns);
    let first_s = ticks.first().map_or(f64::NAN, Tick::ahead_s);
    let said = lines(session, from.saturating_sub(20)).join(", ");
    let Some(right) = ticks::right_from(&ticks, RIGHT_S) else {
        let found =
            format!("{away_s:.3} s away, then {first_s:.3} s ahead and never right: {said}");
        return Try { check: Check { what, found, holds: false }, only_late: false };
    };
    let after_s = seconds(right.at_ns - gap.resumed_ns);
    let left_s = ticks::ahead_s(&ticks[ticks.len().saturating_sub(50)..], 0).unwrap_or(f64::NAN);
    let found = format!(
        "{away_s:.3} s away, {first_s:.3} s ahead at first; right after {after_s:.3} s, \
         {:.1} ms ahead in the end; {said}",
        left_s * 1e3
    );
    let holds = after_s <= AT_ONCE_S;
    // What was corrected wrongly first, and then put right, is not late.
    let steps = lines(session, from).iter().filter(|line| line.starts_with("step ")).count();
    Try { check: Check { what, found, holds }, only_late: !holds && steps <= 1 }
}

/// A small offset is slewed; a keep that is killed meanwhile leaves nothing.
fn small(session: &mut Session, keep: &str, checks: &mut Vec<Check>) -> Result<(), String> {
    put(session, -0.05)?;
    let from_ns = now_ns();
    let from = start(session, keep)?;
    thread::sleep(LOOK);
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let what = "keep: 50 ms behind: slewed, not stepped".to_owned();
    checks.push(slews(session, what, from, &ticks, 1.0));
    end(session, "KILL")?;
    let from_ns = now_ns();
    thread::sleep(LOOK);
    let after = ticks::between(session.telling.heard(), from_ns, now_ns());
    let steered = session.ask("adjtimex", "adjtimex")?;
    let told = |name: &str| {
        let mut lines = steered.lines().map(str::trim);
        lines.find(|line| line.contains(name)).unwrap_or("not told").to_owned()
    };
    let (frequency, tick) = (told("freq.adjust:"), told("tick:"));
    let step_s = ticks::largest_step_s(&after);
    let ends = |line: &str, value: &str| line.split_whitespace().any(|word| word == value);
    checks.push(Check {
        what: "keep: killed while it slews: no step, and the kernel's rate is as it was".to_owned(),
        found: format!("a step of at most {:.3} ms; {frequency}; {tick}", step_s * 1e3),
        holds: step_s <= SLEW_S && ends(&frequency, "0") && ends(&tick, "10000"),
    });
    Ok(())
}

/// A slew in the right direction: `sign` is 1 where the clock must gain.
fn slews(session: &mut Session, what: String, from: usize, ticks: &[Tick], sign: f64) -> Check {
    let gained_s = match (ticks.first(), ticks.last()) {
        (Some(first), Some(last)) => {
            let on_raw = |tick: &Tick| tick.clocks_ns[0] - tick.clocks_ns[3];
            seconds(on_raw(last) - on_raw(first))
        }
        _ => f64::NAN,
    };
    let step_s = ticks::largest_step_s(ticks);
    let said = lines(session, from);
    let found = format!(
        "a step of at most {:.3} ms; gained {:.3} ms in {:.1} s; {}",
        step_s * 1e3,
        gained_s * 1e3,
        ticks.len() as f64 * 0.02,
        said.join(", ")
    );
    let holds =
        step_s <= SLEW_S && gained_s * sign > 0.0 && said.iter().any(|s| s.contains("slew"));
    Check { what, found, holds }
}

/// Far ahead: set back, unless it must never be.
fn ahead(session: &mut Session, keep: &str, checks: &mut Vec<Check>) -> Result<(), String> {
    put(session, 0.0)?;
    let from = start(session, &format!("{keep} --never-backward"))?;
    put(session, 2.0)?;
    let from_ns = now_ns();
    let slewed = |heard: &Heard| object(heard).filter(|line| line["how"] == "slew");
    session.telling.until(from, PATIENCE, slewed);
    thread::sleep(LOOK);
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let backward_s = ticks::backward_s(&ticks);
    let what = "keep --never-backward: 2 s ahead: slowed, never set back".to_owned();
    let mut check = slews(session, what, from, &ticks, -1.0);
    check.found = format!("{} ticks, {backward_s} s back; {}", ticks.len(), check.found);
    check.holds &= backward_s == 0.0 && !ticks.is_empty();
    checks.push(check);
    end(session, "TERM")?;
    // Found 2 s ahead at its start, and free to set it back.
    let from = start(session, keep)?;
    let from_ns = now_ns();
    thread::sleep(GLANCE);
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let ahead_s = ticks::ahead_s(&ticks, 0).unwrap_or(f64::NAN);
    checks.push(Check {
        what: format!("keep: 2 s ahead at its start: set back, right to {RIGHT_S} s"),
        found: format!("{:.1} ms ahead; {}", ahead_s * 1e3, lines(session, from).join(", ")),
        holds: ahead_s.abs() <= RIGHT_S,
    });
    end(session, "TERM")
}

/// Says what it would do, and does nothing.
fn dry_run(session: &mut Session, keep: &str) -> Result<Check, String> {
    put(session, -3.0)?;
    let from_ns = now_ns();
    let from = start(session, &format!("{keep} --dry-run"))?;
    thread::sleep(LOOK);
    end(session, "TERM")?;
    let ticks = ticks::between(session.telling.heard(), from_ns, now_ns());
    let ahead_s = ticks::ahead_s(&ticks, 0).unwrap_or(f64::NAN);
    let step_s = ticks::largest_step_s(&ticks);
    let said = lines(session, from).join(", ");
    Ok(Check {
        what: "keep --dry-run: 3 s behind: says so, changes nothing".to_owned(),
        found: format!("{ahead_s:.3} s ahead, a step of {:.3} ms; {said}", step_s * 1e3),
        holds: (ahead_s + 3.0).abs() <= RIGHT_S && step_s <= SLEW_S,
    })
}

/// What keep said from a line on, but for its beginning and end.
pub(super) fn lines(session: &mut Session, from: usize) -> Vec<String> {
    let said = session.telling.heard()[from..].iter().filter_map(object);
    said.filter_map(|line| {
        let word = |key: &str| line.get(key).and_then(Value::as_str);
        let ms = line.get("by_ns").and_then(Value::as_f64).map(|ns| ns / 1e6);
        let by = ms.map_or(String::new(), |ms| format!(" by {ms:.1} ms"));
        let name = match word("event")? {
            "started" | "summary" => return None,
            "corrected" => word("how")?,
            other => other,
        };
        let source = word("source").map_or(String::new(), |source| format!(" ({source})"));
        let cause = line.get("cause").map_or(String::new(), cause_of);
        Some(format!("{name}{by}{source}{cause}"))
    })
    .collect()
}

/// A cause in JSON is a word, or a word with what it is of.
fn cause_of(cause: &Value) -> String {
    let parts = cause.to_string();
    let words = parts.split(['{', '}', '"', ':']).filter(|word| !word.is_empty());
    match cause {
        Value::Null => String::new(),
        _ => format!("; {}", words.collect::<Vec<_>>().join(": ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_in_words() {
        let said = |text: &str| cause_of(&serde_json::from_str(text).unwrap());
        assert_eq!(said(r#""start""#), "; start");
        assert_eq!(said(r#"{"source-moved": "rtc"}"#), "; source-moved: rtc");
        assert_eq!(said("null"), "");
    }

    #[test]
    fn a_server_that_says_no_port_is_told() {
        let error = Server::start(Path::new("/bin/true")).err().unwrap();
        assert_eq!(error, "/bin/true: no port but \"\"");
        let missing = Server::start(Path::new("/no/such/program")).err().unwrap();
        assert!(missing.starts_with("/no/such/program: "), "{missing}");
    }
}
