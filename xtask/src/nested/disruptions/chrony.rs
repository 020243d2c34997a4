//! `parachron keep` beside a real chronyd, this machine's own program, which
//! keeps the guest's clock.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::in_time::{Try, in_time};
use super::keep::{self, AWAY, RIGHT_S, Server, put};
use super::line::now_ns;
use super::session::{Gap, Session};
use super::ticks::{self, Tick, seconds};
use crate::nested::checks::Check;
use crate::nested::prepare;

/// What it takes: the daemon, and the client that keep commands it with.
const PROGRAMS: [&str; 2] = ["chronyd", "chronyc"];

/// How long chronyd is left to itself, s: its `iburst` is over by then, or the
/// guest's clock is seen not to be corrected by it.
const ALONE: Duration = Duration::from_secs(8);

/// How long it is waited for the clock to be right.
const PATIENCE: Duration = Duration::from_secs(25);

/// Right is what is right for so long: what was corrected wrongly, or twice,
/// shows.
const LASTING: Duration = Duration::from_secs(4);

/// chronyd steps the clock within this time, s: it is asked each two, and
/// measures three times anew, two seconds from one to the next, and one answer
/// may come too late.
const BY_CHRONYD_S: f64 = 10.0;

/// The last ticks, among which one came without delay.
const LAST_TICKS: usize = 50;

/// The programs, where this machine has them all.
pub(super) fn programs() -> Option<Vec<PathBuf>> {
    PROGRAMS.iter().map(|name| prepare::found(name)).collect()
}

/// Two that correct one clock make it worse: keep does not start, unless it
/// leaves the clock to chronyd.
pub(super) fn run(
    session: &mut Session,
    server: &Server,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    put(session, 0.0)?;
    start(session, &format!("server 10.0.2.2 port {} iburst", server.port))?;
    let keep = format!("parachron keep --ntp 10.0.2.2:{} --format json", server.port);
    checks.push(refuses(session, &keep)?);
    thread::sleep(ALONE);
    checks.push(alone(session)?);
    // The first thing it finds is what chronyd has not noticed yet.
    let asks = format!("{keep} --chrony makestep");
    let from_ns = now_ns();
    keep::start(session, &asks)?;
    let begun = Gap { stopped_ns: from_ns, resumed_ns: from_ns };
    checks.push(right_again(session, "--chrony makestep: started 10 s behind", begun).check);
    checks.push(in_time(|| {
        let gap = session.pause(AWAY)?;
        Ok(right_again(session, "--chrony makestep: stop, cont", gap))
    })?);
    keep::end(session, "TERM")?;
    end(session)
}

/// Starts chronyd with such sources, and all else as it is by default but for
/// `makestep`, which is Debian's.
fn start(session: &mut Session, sources: &str) -> Result<(), String> {
    let configuration = format!("{sources}\\nmakestep 1 3\\npidfile /tmp/chronyd.pid\\n");
    let line = format!(
        "mkdir -p -m 750 /run /run/chrony /etc && echo 'root:x:0:0::/:/bin/sh' >/etc/passwd && \
         printf '{configuration}' >/tmp/chrony.conf && \
         chronyd -d -u root -f /tmp/chrony.conf >/tmp/chronyd.log 2>&1 & sleep 3; \
         cat /tmp/chronyd.log; test -S /run/chrony/chronyd.sock"
    );
    session.ask("chronyd", &line).map(drop)
}

fn end(session: &mut Session) -> Result<(), String> {
    session.ask("chronyd-ends", "kill $(cat /tmp/chronyd.pid)").map(drop)
}

fn refuses(session: &mut Session, keep: &str) -> Result<Check, String> {
    let refused = session.run("keep-refused", 20, &format!("{keep} --duration 2s"))?;
    let said: Vec<&str> = refused.stderr.split_whitespace().collect();
    let said = said.join(" ");
    Ok(Check {
        what: "keep: beside a running chronyd: refuses, exit code 2".to_owned(),
        holds: refused.status == 2 && said.contains("chronyd"),
        found: format!("exit code {}: {said}", refused.status),
    })
}

/// What keep is for: without it chronyd asks at its next poll, 64 s after the
/// one before.
fn alone(session: &mut Session) -> Result<Check, String> {
    let gap = session.pause(AWAY)?;
    thread::sleep(ALONE);
    let ticks = ticks::between(session.telling.heard(), gap.resumed_ns, now_ns());
    let left_s = left_s(&ticks);
    Ok(Check {
        what: "chronyd without keep: stop, cont: does not notice".to_owned(),
        found: format!(
            "{:.3} s away; {left_s:.3} s ahead {} s later",
            seconds(gap.resumed_ns - gap.stopped_ns),
            ALONE.as_secs()
        ),
        holds: (left_s + AWAY.as_secs_f64()).abs() <= 1.0,
    })
}

/// The clock is right soon after a moment, and stays so.
fn right_again(session: &mut Session, what: &str, gap: Gap) -> Try {
    let from = session.telling.since(gap.resumed_ns);
    let waiting = Instant::now();
    let ticks = loop {
        thread::sleep(Duration::from_millis(200));
        let ticks = ticks::between(session.telling.heard(), gap.resumed_ns, now_ns());
        let right = ticks::right_from(&ticks, RIGHT_S);
        let lasts = |right: Tick| seconds(now_ns() - right.at_ns) >= LASTING.as_secs_f64();
        if right.is_some_and(lasts) || waiting.elapsed() > PATIENCE {
            break ticks;
        }
    };
    let left_s = left_s(&ticks);
    let said = keep::lines(session, from).join(", ");
    let first_s = ticks.first().map_or(f64::NAN, Tick::ahead_s);
    let after_s = ticks::right_from(&ticks, RIGHT_S)
        .map_or(f64::INFINITY, |right| seconds(right.at_ns - gap.resumed_ns));
    let is_right = after_s.is_finite() && left_s.abs() <= RIGHT_S;
    let check = Check {
        what: format!("keep {what}: chronyd steps within {BY_CHRONYD_S} s, to {RIGHT_S} s"),
        found: format!(
            "{:.3} s away, {first_s:.3} s ahead at first; right after {after_s:.3} s, \
             {:.1} ms ahead in the end; {said}",
            seconds(gap.resumed_ns - gap.stopped_ns),
            left_s * 1e3
        ),
        holds: is_right && after_s <= BY_CHRONYD_S,
    };
    Try { only_late: is_right && !check.holds, check }
}

/// How far the clock is ahead in the end, s.
fn left_s(ticks: &[Tick]) -> f64 {
    ticks::ahead_s(&ticks[ticks.len().saturating_sub(LAST_TICKS)..], 0).unwrap_or(f64::NAN)
}
