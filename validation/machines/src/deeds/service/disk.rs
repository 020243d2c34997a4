//! A disk on which nothing can be stored any more.

use std::thread::sleep;
use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::{after_a_stop, from_now, soon_right};
use super::setup::{INSTALL, PAUSES};

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
const IS_FULL: &str = "! echo x 2>&1 >/var/lib/parachron/more";

const EMPTY: &str = "rm -f /run/filling; sleep 1; \
    rm -f /var/fill /var/fill.more /var/lib/parachron/more; journalctl --flush";

/// What it said of a frequency that it cannot store: one of its last words, so that the
/// journal may not know its unit any more.
const SAID: &str = "journalctl -o cat PARACHRON_EVENT=frequency-file | tail -n 1";

/// What the machine said as its disk was filled shows that nothing more can be stored.
fn is_filled(said: &str) -> bool {
    // Of both, and of the line.
    said.matches("No space left on device").count() >= 3
}

/// A pause is corrected all the same, and a service that is started then keeps the clock.
pub(super) fn full(machine: &mut Machine, checks: &mut Checks) -> Result {
    filled(machine, checks)?;
    checks.push(after_a_stop("stop, cont on a full disk", machine, PAUSES[0])?);
    started_again(machine, checks)?;
    emptied(machine, checks)
}

fn started_again(machine: &mut Machine, checks: &mut Checks) -> Result {
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("started again on a full disk", machine, since)?);
    checks.push(after_a_stop("started again on a full disk, and stop, cont", machine, PAUSES[0])?);
    Ok(())
}

fn filled(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute(ELSEWHERE)?;
    let record = machine.line.run("fill", 180, FILL)?;
    let said = format!("{} {}", record.stderr.trim(), record.stdout.trim());
    let is_full = is_filled(&said);
    checks.push(Check::new("service: the disk is full", said, is_full));
    Ok(())
}

/// It was full all the time; then it is not.
fn emptied(machine: &mut Machine, checks: &mut Checks) -> Result {
    let is_full = machine.line.run("full", 30, IS_FULL)?.status == 0;
    checks.push(Check::new(
        "service: the disk was full to the end",
        if is_full { "no line can be stored" } else { "a line can be stored" },
        is_full,
    ));
    machine.execute(EMPTY).map(drop)
}

/// By the host's PTP clock it learns a frequency, which it stores as it ends.
const LEARNS: Duration = Duration::from_secs(40);

/// By the PTP clock that the host offers: what it learnt is stored, and where it cannot
/// be, the journal says so, and the clock is right.
pub(crate) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s ptp")?;
    let since = from_now(machine)?;
    machine.execute("systemctl enable --now parachrond")?;
    checks.push(soon_right("by the host's PTP clock, it starts", machine, since)?);
    sleep(LEARNS);
    let stores = "systemctl restart parachrond; cat /var/lib/parachron/frequency";
    let stored = machine.line.run("stored", 30, stores)?.stdout;
    let is_stored = stored.starts_with("parachron-frequency 1\n");
    checks.push(Check::new("service: the frequency that it learnt is stored", &stored, is_stored));
    sleep(LEARNS);
    filled(machine, checks)?;
    // Before a pause, after which the machine may be another, with another oscillator.
    started_again(machine, checks)?;
    let said = machine.execute(SAID)?;
    checks.push(Check::new(
        "service: on a full disk it logs that the frequency cannot be stored",
        &said,
        said.contains("/var/lib/parachron/frequency") && said.contains("No space left"),
    ));
    let kept = machine.line.run("kept", 30, "cat /var/lib/parachron/frequency")?.stdout;
    checks.push(Check::new(
        "service: what was stored before the disk was full is whole",
        &kept,
        kept.starts_with("parachron-frequency 1\n") && kept.lines().count() == 4,
    ));
    emptied(machine, checks)
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
