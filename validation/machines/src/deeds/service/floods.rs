//! What an ordinary user may send without end: the clock is put right after a pause all
//! the same. Commands of a machine that is flooded take seconds, in which a clock that
//! nothing corrected passes for right: it prints its clock to a port instead.

use std::time::Duration;

use crate::checks::Check;
use crate::deeds::Place;
use crate::machine::Machine;
use crate::outcome::Result;

use super::operator::process;
use super::right::{PATIENCE, between};
use super::setup::PAUSES;
use super::stops::{self, Seen};
use super::users::USER;

/// What cannot be refused: processes with the names of time daemons, which may not
/// set the clock; connections that ask without end, and that say nothing; forged
/// replies of a server to each UDP port that is open; entries for the journal and
/// states of services without end.
const FLOODS: &str = include_str!("floods.sh");

/// How many of them run on.
const RUNNING: &str = "10";

/// Servers' replies wait as well: the clock is right within this, s. One that nobody
/// steps is two seconds behind.
const RIGHT_S: f64 = 0.5;

const PORT: &str = "udevadm trigger --settle -s virtio-ports; ls /dev/virtio-ports/output";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    machine.execute(PORT)?;
    let mut output = stops::printed(place, machine, "/dev/virtio-ports/output")?;
    let pid = process(machine)?;
    let floods = FLOODS.replace('\n', " ");
    let said = machine.line.run("floods", 60, &format!("{USER} '{floods}'"))?.stdout;
    let stopped = stops::stopped(machine, &mut output, PAUSES[0], PATIENCE, || Ok(()))?;
    let seen = stopped.seen(0.0, RIGHT_S)?;
    let line = "/usr/bin/pkill -KILL -u 65534; killall guest-clock; sleep 1; \
        journalctl -u parachrond -n 30 -o cat";
    let told = machine.line.run("after", 60, line)?.stdout;
    let is_same = process(machine)? == pid;
    Ok(judged(&seen, said.trim(), is_same, told.contains("only steps")))
}

fn judged(seen: &Seen, running: &str, is_same: bool, is_beside: bool) -> Check {
    // It may be busy for a second before it stands.
    let due_s = between(PAUSES[0], PAUSES[0] + Duration::from_secs(1));
    let Seen { took_s, left_s, stepped_s, .. } = *seen;
    Check::new(
        format!(
            "service: stop, cont while an ordinary user floods it: stepped, and right within \
             {RIGHT_S} s, after {} s at most",
            PATIENCE.as_secs()
        ),
        format!(
            "after {took_s:.1} s of the machine's, stepped by {stepped_s:+.3} s, {left_s:.3} s ahead \
             in the end; {running} floods; {} process{}",
            if is_same { "the same" } else { "another" },
            if is_beside { ", which took a user's for a daemon" } else { "" }
        ),
        took_s.is_finite()
            && due_s.contains(&stepped_s)
            && running == RUNNING
            && is_same
            && !is_beside,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flooded_clock_that_nobody_steps_is_wrong() {
        let of = |took_s, left_s, stepped_s| {
            let seen = Seen { took_s, left_s, stepped_s };
            judged(&seen, RUNNING, true, false).passed
        };
        assert!(of(3.0, -0.02, 2.1));
        assert!(!of(f64::INFINITY, -2.0, 0.0));
        // Right by something else than a step of that size.
        assert!(!of(3.0, -0.02, 0.0) && !of(3.0, 0.02, 4.2));
        let right = Seen { took_s: 3.0, left_s: -0.02, stepped_s: 2.1 };
        assert!(!judged(&right, "9", true, false).passed);
        assert!(!judged(&right, RUNNING, false, false).passed);
        assert!(!judged(&right, RUNNING, true, true).passed);
    }
}
