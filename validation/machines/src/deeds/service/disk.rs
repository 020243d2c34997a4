//! A disk on which nothing can be stored any more.

use std::thread::sleep;
use std::time::Duration;

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::{after_a_stop, right_after};
use super::{ENABLE, INSTALL, PAUSES, RESTART};

/// What shows the effect must not need the disk that is filled: the journal, and the
/// records of commands, whose files move, and those of this command are empty there.
const ELSEWHERE: &str = "journalctl --relinquish-var; grep -q ' /tmp tmpfs ' /proc/mounts || \
    { mount -t tmpfs tmpfs /tmp && : >/tmp/stdout && : >/tmp/stderr; }";

/// What is freed later is filled too, until a file is gone.
const FILL: &str = "dd if=/dev/zero of=/var/fill bs=1M; dd if=/dev/zero of=/var/fill.more bs=4k; \
    echo x >/var/lib/parachron/more; df -k /var/lib/parachron | tail -n 1; touch /run/filling; \
    while [ -e /run/filling ]; do cat /dev/zero >>/var/fill.more; sleep 0.2; done \
    >/dev/null 2>&1 &";

/// No program can store a line there.
const IS_FULL: &str = "echo x 2>&1 >/var/lib/parachron/more || echo nothing can be stored";

/// What it said of a frequency that it cannot store: one of its last words, so that the
/// journal may not know its unit any more.
const SAID: &str = "journalctl -o cat PARACHRON_EVENT=frequency-file | tail -n 1";

/// What the machine said as its disk was filled shows that nothing more can be stored.
fn is_filled(said: &str) -> bool {
    // Of both, and of the line.
    said.matches("No space left on device").count() >= 3
}

/// By the host's PTP clock it learns a frequency, which it stores as it ends.
const LEARNS: Duration = Duration::from_secs(40);

/// By the PTP clock that the host offers: what it learnt is stored, and where it cannot
/// be, the journal says so, and the clock is right, also after a pause.
pub(crate) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s ptp")?;
    checks.push(right_after("by the host's PTP clock, it starts", machine, ENABLE)?);
    sleep(LEARNS);
    let stores = "systemctl restart parachrond; cat /var/lib/parachron/frequency";
    let is_stored = |said: &str| said.starts_with("parachron-frequency 1\n");
    let what = "service: the frequency that it learnt is stored";
    checks.push(machine.says(what, stores, is_stored)?);
    sleep(LEARNS);
    machine.execute(ELSEWHERE)?;
    checks.push(machine.says("service: the disk is full", FILL, is_filled)?);
    // Before a pause, after which the machine may be another, with another oscillator.
    checks.push(right_after("started again on a full disk", machine, RESTART)?);
    let when = "started again on a full disk, and stop, cont";
    checks.push(after_a_stop(when, machine, PAUSES[0], "true")?);
    let what = "service: on a full disk it logs that the frequency cannot be stored";
    checks.push(machine.says(what, SAID, |said| {
        said.contains("/var/lib/parachron/frequency") && said.contains("No space left")
    })?);
    let what = "service: what was stored before the disk was full is whole";
    checks.push(machine.says(what, "cat /var/lib/parachron/frequency", |said| {
        is_stored(said) && said.lines().count() == 4
    })?);
    let what = "service: the disk was full to the end";
    checks.push(machine.says(what, IS_FULL, |said| said.ends_with("nothing can be stored"))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_room_is_not_full() {
        let dd = |name: &str| format!("dd: error writing '{name}': No space left on device\n");
        let both = dd("/var/fill") + &dd("/var/fill.more");
        let line = "sh: write error: No space left on device\n";
        assert!(is_filled(&format!("{both}{line} disk 204800 204800 0 100% /")));
        assert!(!is_filled(&both), "a line was stored");
        // The disk was larger than what dd wrote in its time.
        assert!(!is_filled("") && !is_filled(line));
    }
}
