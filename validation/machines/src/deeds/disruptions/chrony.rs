//! `parachron keep` with a real chronyd, this machine's program, which
//! disciplines the guest's clock.

use std::thread;
use std::time::{Duration, Instant};

use super::channel::now_ns;
use super::keep::{self, CORRECT_S, PAUSE, set_ahead};
use super::session::{Gap, Session};
use super::ticks::{self, Tick, seconds};
use crate::checks::{Check, Checks};
use crate::deeds::server::Server;
use crate::outcome::Result;

/// How long chronyd runs alone: its `iburst` is over by then, or it is clear
/// that it has not corrected the guest's clock.
const ALONE: Duration = Duration::from_secs(8);

/// How long to wait until the clock is correct.
const TIMEOUT: Duration = Duration::from_secs(25);

/// The clock must stay correct for this long: a wrong or repeated correction
/// shows.
const LASTING: Duration = Duration::from_secs(4);

/// chronyd steps the clock within this time, s: it is polled every two
/// seconds, takes three new measurements two seconds apart, and one reply may
/// be too late.
const BY_CHRONYD_S: f64 = 10.0;

/// keep steps the clock within this time, s: a sample, and the server's answers.
const BY_KEEP_S: f64 = 1.0;

/// keep has chronyd step, and then, as it does by default, steps itself.
pub(super) fn run(session: &mut Session, server: &Server, checks: &mut Checks) -> Result {
    set_ahead(session, 0.0)?;
    start(session, &format!("server 10.0.2.2 port {} iburst", server.port))?;
    let keep = format!("{}{}", keep::COMMAND, server.port);
    thread::sleep(ALONE);
    checks.push(alone(session)?);
    // It starts with an offset that chronyd has not noticed yet.
    let commanding = format!("{keep} --chrony makestep");
    let from_ns = now_ns();
    keep::start(session, &commanding)?;
    let start = Gap { stopped_ns: from_ns, resumed_ns: from_ns };
    let what = "--chrony makestep: started 10 s behind";
    checks.push(corrected(session, what, start, BY_CHRONYD_S));
    let gap = session.pause(PAUSE)?;
    checks.push(corrected(session, "--chrony makestep: stop, cont", gap, BY_CHRONYD_S));
    keep::end(session, "TERM")?;
    keep::start(session, &keep)?;
    let gap = session.pause(PAUSE)?;
    checks.push(corrected(session, "beside chronyd: stop, cont", gap, BY_KEEP_S));
    keep::end(session, "TERM")?;
    end(session)
}

fn start(session: &mut Session, sources: &str) -> Result {
    session.execute("chronyd", &line(sources)).map(drop)
}

/// What starts chronyd with these sources, its defaults, and Debian's `makestep`.
pub(in crate::deeds) fn line(sources: &str) -> String {
    let configuration = format!("{sources}\\nmakestep 1 3\\npidfile /tmp/chronyd.pid\\n");
    format!(
        "mkdir -p -m 750 /run /run/chrony /etc && echo 'root:x:0:0::/:/bin/sh' >/etc/passwd && \
         printf '{configuration}' >/tmp/chrony.conf && \
         chronyd -d -u root -f /tmp/chrony.conf >/tmp/chronyd.log 2>&1 & sleep 3; \
         cat /tmp/chronyd.log; test -S /run/chrony/chronyd.sock"
    )
}

fn end(session: &mut Session) -> Result {
    session.execute("chronyd-ends", "kill $(cat /tmp/chronyd.pid)").map(drop)
}

/// The case for keep: without it chronyd notices at its next poll, up to 64 s
/// later.
fn alone(session: &mut Session) -> Result<Check, String> {
    let gap = session.pause(PAUSE)?;
    thread::sleep(ALONE);
    let left_s = ticks::left_s(&session.ticks_since(gap.resumed_ns));
    let (pause_s, later_s) = (gap.pause_s(), ALONE.as_secs());
    Ok(Check::new(
        "chronyd without keep: stop, cont: does not notice",
        format!("paused for {pause_s:.3} s; {left_s:.3} s ahead {later_s} s later"),
        (left_s + PAUSE.as_secs_f64()).abs() <= 1.0,
    ))
}

/// The clock is correct soon after the guest resumed, and stays so.
fn corrected(session: &mut Session, what: &str, gap: Gap, within_s: f64) -> Check {
    let from = session.output.since(gap.resumed_ns);
    let waiting = Instant::now();
    let ticks = loop {
        thread::sleep(Duration::from_millis(200));
        let ticks = session.ticks_since(gap.resumed_ns);
        let correct = ticks::correct_from(&ticks, CORRECT_S);
        let lasts = |tick: Tick| seconds(now_ns() - tick.at_ns) >= LASTING.as_secs_f64();
        if correct.is_some_and(lasts) || waiting.elapsed() > TIMEOUT {
            break ticks;
        }
    };
    let reported = keep::events(session, from).join(", ");
    let (found, after_s) = keep::correction(&ticks, gap, &reported);
    let is_correct = after_s.is_finite() && ticks::left_s(&ticks).abs() <= CORRECT_S;
    let what = format!("keep {what}: the clock is right within {within_s} s, to {CORRECT_S} s");
    Check::new(what, found, is_correct && after_s <= within_s)
}
