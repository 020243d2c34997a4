//! Processes of the daemon are killed while the gate is closed: nothing stays frozen. Seen from
//! outside, by the stamps of the gated writer.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::{DRAINED, Gated, START, save_and_load};

/// How often each is killed.
const TIMES: usize = 5;

/// How soon the writer writes again, by this system's clock.
const THAWED: Duration = Duration::from_secs(2);

/// What is killed, and what thaws then.
struct Kill {
    what: &'static str,
    line: &'static str,
    when: When,
}

/// When the kill happens, and what thaws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Closed,
    /// It is started again at once.
    ThenStarted,
    /// In a machine that was put back with the gate closed, whose host does not answer.
    Restored,
}

const KILLS: [Kill; 4] = [
    Kill {
        what: "the daemon is killed and its watcher thaws",
        line: "kill -9 $(cat /tmp/daemon)",
        when: When::Closed,
    },
    Kill {
        what: "the watcher is killed, 0.2 s later the daemon, and the next watcher thaws",
        line: "daemon=$(cat /tmp/daemon); kill -9 $(cat /proc/$daemon/task/*/children); \
            usleep 200000; kill -9 $daemon",
        when: When::Closed,
    },
    Kill {
        what: "the daemon and its watcher are killed at once and the next start thaws",
        line: "daemon=$(cat /tmp/daemon); kill -9 $(cat /proc/$daemon/task/*/children) $daemon",
        when: When::ThenStarted,
    },
    Kill {
        what: "the daemon is killed after loadvm, before it has the time, and its watcher thaws",
        line: "kill -9 $(cat /tmp/daemon)",
        when: When::Restored,
    },
];

/// What frozen processes there are, and what is listed as frozen.
const LEFT: &str = "grep -h frozen /sys/fs/cgroup/gated/cgroup.events; \
    ls /run/parachron/gate.frozen 2>/dev/null; true";

pub(super) fn run(gated: &mut Gated, machine: &mut Machine, checks: &mut Checks) -> Result {
    for kill in KILLS {
        let mut took = Vec::new();
        let mut wrong = Vec::new();
        for _ in 0..TIMES {
            match once(gated, machine, &kill)? {
                Ok(thawed) => took.push(thawed.as_secs_f64()),
                Err(why) => wrong.push(why),
            }
        }
        let worst_s = took.iter().copied().fold(f64::NAN, f64::max);
        let wrong_text = if wrong.is_empty() { String::new() } else { wrong.join("; ") + "; " };
        checks.push(Check::new(
            format!("gate: {}: nothing stays frozen", kill.what),
            format!(
                "{wrong_text}{} of {TIMES} kills, the program writes again within {worst_s:.2} s",
                took.len()
            ),
            wrong.is_empty(),
        ));
    }
    Ok(())
}

/// How soon the writer wrote again after a kill in a closed gate, or what stayed.
fn once(
    gated: &mut Gated,
    machine: &mut Machine,
    kill: &Kill,
) -> Result<Result<Duration, String>, String> {
    machine.execute("parachron gate freeze")?;
    sleep(DRAINED);
    if kill.when == When::Restored {
        gated.host.keep_silent(true);
        save_and_load(machine, || ())?;
    }
    gated.gated.take();
    sleep(DRAINED);
    let still = gated.gated.take().len();
    if still > 0 {
        return Ok(Err(format!("{still} stamps were written while the gate was closed")));
    }
    let begun = Instant::now();
    machine.execute(kill.line)?;
    if kill.when == When::ThenStarted {
        machine.execute(START)?;
    }
    let thawed = gated.gated.next(THAWED).map(|_| begun.elapsed());
    let left = machine.execute(LEFT)?;
    if kill.when != When::ThenStarted {
        machine.execute(START)?;
    }
    gated.host.keep_silent(false);
    Ok(match thawed {
        Some(thawed) if left == "frozen 0" => Ok(thawed),
        _ => Err(format!("{}: {left:?}", if thawed.is_some() { "written" } else { "not written" })),
    })
}
