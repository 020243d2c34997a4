//! What an ordinary user tries against the service.

use std::time::Duration;

use crate::checks::Check;
use crate::deeds::Place;
use crate::machine::Machine;
use crate::outcome::Result;

use super::PAUSES;
use super::operator::process;
use super::right::{PATIENCE, between};
use super::stops::{self, Seen};

/// A user of no group. By their paths: busybox, whose shell prefers its own, has a
/// setpriv that knows no users, and fewer options of other tools.
const USER: &str = "/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups /bin/busybox sh -c";

/// Each line must be refused. `{pid}` is the service's process, `{systemd}` and `{date}`
/// objects on the system's bus.
const TRIES: &str = include_str!("users.tries");

const SYSTEMD: &str = "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 \
    org.freedesktop.systemd1.Manager";
const DATE: &str = "busctl call org.freedesktop.timedate1 /org/freedesktop/timedate1 \
    org.freedesktop.timedate1";

/// What a user may do, so that a refusal is not the shell's; and what a program
/// says that was not run, or not as it was meant.
const ALLOWED: &str = "id -u; parachron status >/dev/null && echo asked";
const NOT_RUN: [&str; 5] = ["not found", "applet", "usage", "Usage", "nrecognized option"];

/// None is allowed, and the process is the same.
pub(super) fn out_of_reach(machine: &mut Machine) -> Result<Check, String> {
    let pid = process(machine)?;
    let control = machine.execute(&format!("{USER} '{ALLOWED}'"))?;
    let (mut allowed, mut not_run) = (Vec::new(), Vec::new());
    for attempt in TRIES.lines() {
        let attempt = attempt.replace("{systemd}", SYSTEMD).replace("{date}", DATE);
        let attempt = attempt.replace("{pid}", &pid);
        let record =
            machine.line.run("user", 30, &format!("{USER} '{attempt}' 2>&1 </dev/null"))?;
        if record.status == 0 {
            allowed.push(attempt);
        } else if NOT_RUN.iter().any(|words| record.stdout.contains(words)) {
            not_run.push(format!("{attempt}: {}", record.stdout.trim()));
        }
    }
    let found = format!(
        "{} tried, allowed: {}; not run: {}",
        TRIES.lines().count(),
        allowed.join("; "),
        not_run.join("; ")
    );
    let same = process(machine)? == pid && control == "65534\nasked";
    let what = "service: an ordinary user stops and moves nothing";
    Ok(Check::new(what, found, allowed.is_empty() && not_run.is_empty() && same))
}

/// What cannot be refused: processes with the names of time daemons, which may not
/// set the clock; connections that ask without end, and that say nothing; forged
/// replies of a server to each UDP port that is open; entries for the journal and
/// states of services without end.
const FLOODS: &str = include_str!("floods.sh");

/// How many of them run on.
const RUNNING: &str = "10";

/// Servers' replies wait as well: the clock is right within this, s. One that nobody
/// steps is two seconds behind.
const FLOODED_S: f64 = 0.5;

const PORT: &str = "udevadm trigger --settle -s virtio-ports; ls /dev/virtio-ports/output";

/// What an ordinary user may send without end: the clock is put right after a pause all
/// the same. Commands of a machine that is flooded take seconds, in which a clock that
/// nothing corrected passes for right: it prints its clock to a port instead.
pub(super) fn floods(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    machine.execute(PORT)?;
    let mut output = stops::printed(place, machine, "/dev/virtio-ports/output")?;
    let pid = process(machine)?;
    let floods = FLOODS.replace('\n', " ");
    let said = machine.line.run("floods", 60, &format!("{USER} '{floods}'"))?.stdout;
    let stopped = stops::stopped(machine, &mut output, PAUSES[0], PATIENCE, || Ok(()))?;
    let seen = stopped.seen(0.0, FLOODED_S)?;
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
             {FLOODED_S} s, after {} s at most",
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
