//! What an operator does to the service, and what an ordinary user tries.

use std::thread::sleep;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::setup::{PAUSES, WAIT, configure};
use super::world::soon_right;

/// A good file is taken over by a reload, a bad one is refused by line, and the
/// service goes on.
pub(super) fn reloaded(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    let pid = process(machine)?;
    configure(machine, &good.replace("burst = 20", "brust = 20"))?;
    machine.line.run("reload", 30, "systemctl reload parachrond; sleep 1")?;
    let said = machine.execute("journalctl -u parachrond -n 5 -o cat")?;
    checks.push(Check::new(
        "service: a reload refuses an unknown key by its line, and names the nearest",
        &said,
        said.contains("parachrond.toml:4") && said.contains("burst"),
    ));
    configure(machine, &good.replace("poll = \"8s\"", "poll = \"9s\""))?;
    machine.execute("systemctl reload parachrond; sleep 1")?;
    let after = process(machine)?;
    checks.push(Check::new(
        "service: reloads keep its process",
        format!("{pid} and {after}"),
        pid == after && pid != "0",
    ));
    configure(machine, good)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("restarted", machine)?);
    Ok(())
}

pub(super) fn process(machine: &mut Machine) -> Result<String, String> {
    machine.execute("systemctl show -p MainPID --value parachrond")
}

/// What it was killed in the middle of is gone on with.
pub(super) fn killed(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "systemctl kill -s KILL parachrond; \
        for i in $(seq 30); do sleep 0.5; systemctl is-active -q parachrond && break; done; \
        systemctl show -p NRestarts --value parachrond; systemctl is-active parachrond";
    let said = machine.line.run("killed", 60, line)?.stdout;
    let passed = said.split_whitespace().eq(["1", "active"]);
    checks.push(Check::new("service: killed, it is started again, once", said.trim(), passed));
    machine.pause(PAUSES[0])?;
    checks.push(soon_right("killed, started again, and stop, cont", machine)?);
    Ok(())
}

/// A date that an administrator set is not undone; the next disruption ends that.
pub(super) fn left_alone(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute("date -s @$(($(date +%s) + 3600)) >/dev/null")?;
    sleep(WAIT);
    let (ahead_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "service: a date that was set stays",
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
        (ahead_s - 3600.0).abs() < 2.0 + bound_s,
    ));
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("started again after a date was set", machine)?);
    Ok(())
}

/// A new program in the place of the old one, as a package manager does it.
pub(super) fn upgraded(machine: &mut Machine, checks: &mut Checks) -> Result {
    let state = "stat -c %i /run/clockbound/shm0; sha256sum /etc/parachron/parachrond.toml; \
        ls /var/lib/parachron";
    let before = machine.execute(state)?;
    let line = "cp /usr/bin/parachrond /usr/bin/parachrond.new && \
        mv /usr/bin/parachrond.new /usr/bin/parachrond && systemctl restart parachrond && sleep 2; \
        journalctl -u parachrond -o cat | sed -n 'H;/^Started parachrond/h;${x;p}'";
    let said = machine.execute(line)?;
    let passed = machine.execute(state)? == before && !said.contains("step: ");
    checks.push(Check::new(
        "service: a new program keeps the state, and steps nothing",
        said,
        passed,
    ));
    checks.push(soon_right("a new program", machine)?);
    Ok(())
}

/// A wrong file at the start: it is not started again and again.
pub(super) fn mistyped(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    configure(machine, &good.replace("poll =", "pole ="))?;
    let line = "systemctl restart parachrond; sleep 5; \
        systemctl show -p NRestarts,ActiveState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 3 -o cat";
    let said = machine.line.run("mistyped", 60, line)?.stdout;
    let passed = said.contains("ActiveState=failed") && said.contains("NRestarts=0");
    checks.push(Check::new("service: a wrong file fails once, with its line", said, passed));
    configure(machine, good)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("its file corrected", machine)?);
    Ok(())
}

/// Nothing can be written where the lock is: refused with the reason, not
/// started again, and as before once it can.
pub(super) fn read_only(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "mount --bind /run/parachron /run/parachron && \
        mount -o remount,bind,ro /run/parachron && systemctl restart parachrond; sleep 3; \
        systemctl show -p NRestarts,ActiveState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 7 -o cat; umount /run/parachron";
    let said = machine.line.run("read-only", 60, line)?.stdout;
    let passed = said.contains("Read-only") && said.contains("NRestarts=0");
    checks.push(Check::new("service: a folder that is read-only is named", said, passed));
    machine.line.run(
        "again",
        30,
        "systemctl reset-failed parachrond; systemctl restart parachrond",
    )?;
    checks.push(soon_right("its folder writable again", machine)?);
    Ok(())
}
