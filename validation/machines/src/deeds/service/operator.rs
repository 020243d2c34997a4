//! What an operator does to the service.

use std::thread::sleep;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::{after_a_stop, right_after};
use super::{PAUSES, RESTART, WAIT, configure};

/// Until systemd has started it again by itself: in a slow machine that takes longer than
/// the delay. What it is then.
pub(super) const STARTED_AGAIN: &str = "for i in $(seq 120); do systemctl is-active -q parachrond && break; \
    sleep 1; done; systemctl is-active parachrond";

pub(super) fn run(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    reloaded(machine, good, checks)?;
    killed(machine, checks)?;
    left_alone(machine, checks)?;
    read_only(machine, checks)
}

pub(super) fn process(machine: &mut Machine) -> Result<String> {
    machine.execute("systemctl show -p MainPID --value parachrond")
}

/// A good file is taken over by a reload, a bad one is refused by line, and the
/// service goes on.
fn reloaded(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    const RELOAD: &str = "systemctl reload parachrond; sleep 1; \
        systemctl show -p MainPID --value parachrond; journalctl -u parachrond -n 20 -o cat";
    let pid = process(machine)?;
    configure(machine, &good.replace("burst = 20", "brust = 20"))?;
    let what = "service: a reload refuses an unknown key by its line, and names the nearest";
    checks.push(
        machine.says(what, RELOAD, |said| {
            said.contains("parachrond.toml:4") && said.contains("burst")
        })?,
    );
    configure(machine, &good.replace("min-interval = \"1s\"", "min-interval = \"2s\""))?;
    let what = "service: a reload takes over a new min-interval, and keeps its process";
    checks.push(machine.says(what, RELOAD, |said| {
        said.starts_with(&format!("{pid}\n")) && pid != "0" && said.contains("then one per 2.0")
    })?);
    configure(machine, good)?;
    checks.push(right_after("restarted", machine, RESTART)?);
    Ok(())
}

/// What it was killed in the middle of is gone on with.
fn killed(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = format!(
        "systemctl kill -s KILL parachrond; sleep 1; {STARTED_AGAIN}; \
        systemctl show -p NRestarts --value parachrond"
    );
    let what = "service: killed, it is started again, once";
    checks.push(machine.says(what, &line, |said| said == "active\n1")?);
    checks.push(after_a_stop("killed, and stop, cont", machine, PAUSES[0], "true")?);
    Ok(())
}

/// A date that an administrator set is not undone; the next disruption ends that.
fn left_alone(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute("date -s @$(($(date +%s) + 3600)) >/dev/null")?;
    sleep(WAIT);
    let (ahead_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "service: a date that was set stays",
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
        (ahead_s - 3600.0).abs() < 2.0 + bound_s,
    ));
    checks.push(right_after("started again after a date was set", machine, RESTART)?);
    Ok(())
}

/// Nothing can be written where the lock is: it fails with the reason, and is started
/// again by nobody's hand once it can.
fn read_only(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "mount --bind /run/parachron /run/parachron && \
        mount -o remount,bind,ro /run/parachron && systemctl restart parachrond; sleep 3; \
        systemctl show -p SubState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 7 -o cat; umount /run/parachron";
    checks.push(machine.says("service: a folder that is read-only is named", line, |said| {
        let words = ["Read-only", "SubState=auto-restart", "ExecMainStatus=1\n"];
        words.iter().all(|word| said.contains(word))
    })?);
    checks.push(right_after("its folder writable again", machine, STARTED_AGAIN)?);
    Ok(())
}

/// A wrong file at the start: it is not started again and again.
pub(super) fn mistyped(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    configure(machine, &good.replace("poll =", "pole ="))?;
    let line = "systemctl restart parachrond; sleep 5; \
        systemctl show -p NRestarts,ActiveState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 3 -o cat";
    checks.push(machine.says("service: a wrong file fails once, with its line", line, |said| {
        said.contains("ActiveState=failed") && said.contains("NRestarts=0")
    })?);
    configure(machine, good)?;
    checks.push(right_after("its file corrected", machine, RESTART)?);
    Ok(())
}
