//! What an operator does to the service, and what an ordinary user tries.

use std::thread::sleep;
use std::time::Instant;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::{self, after_a_stop, from_now, soon_right};
use super::setup::{PAUSES, WAIT, configure};

/// Until systemd has started it again by itself: in a slow machine that takes longer than
/// the delay. What it is then.
pub(super) const STARTED_AGAIN: &str = "for i in $(seq 120); do systemctl is-active -q parachrond && break; \
    sleep 1; done; systemctl is-active parachrond";

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
    configure(machine, &good.replace("min-interval = \"1s\"", "min-interval = \"2s\""))?;
    machine.execute("systemctl reload parachrond; sleep 1")?;
    let after = process(machine)?;
    let said = machine.execute("journalctl -u parachrond -n 20 -o cat")?;
    checks.push(Check::new(
        "service: a reload takes over a new min-interval, and keeps its process",
        format!("{pid} and {after}; {said}"),
        pid == after && pid != "0" && said.contains("then one per 2.0"),
    ));
    configure(machine, good)?;
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("restarted", machine, since)?);
    Ok(())
}

pub(super) fn process(machine: &mut Machine) -> Result<String, String> {
    machine.execute("systemctl show -p MainPID --value parachrond")
}

/// What it was killed in the middle of is gone on with.
pub(super) fn killed(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = format!(
        "systemctl kill -s KILL parachrond; sleep 1; {STARTED_AGAIN}; \
        systemctl show -p NRestarts --value parachrond"
    );
    let said = machine.line.run("killed", 150, &line)?.stdout;
    let passed = said.split_whitespace().eq(["active", "1"]);
    checks.push(Check::new("service: killed, it is started again, once", said.trim(), passed));
    let when = "killed, started again, and stop, cont";
    checks.push(after_a_stop(when, machine, PAUSES[0])?);
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
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("started again after a date was set", machine, since)?);
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
    let since = from_now(machine)?;
    let said = machine.execute(line)?;
    let passed = machine.execute(state)? == before && !said.contains("step: ");
    checks.push(Check::new(
        "service: a new program keeps the state, and steps nothing",
        said,
        passed,
    ));
    checks.push(soon_right("a new program", machine, since)?);
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
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("its file corrected", machine, since)?);
    Ok(())
}

/// Nothing can be written to /run while it runs: its lock, its sockets and ClockBound's
/// segments are open. A pause is corrected.
pub(super) fn run_is_read_only(machine: &mut Machine, checks: &mut Checks) -> Result {
    let pid = process(machine)?;
    right::steps_s(machine)?;
    // The mount comes to the service's namespace, that it is read-only does not.
    let inside = format!("/usr/bin/nsenter -t {pid} -m");
    let line = format!(
        "mount --bind /run /run && mount -o remount,bind,ro /run && \
         {inside} /usr/bin/mount -o remount,bind,ro /run; \
         echo x >/run/new; {inside} /bin/sh -c 'echo x >/run/parachron/new'; \
         grep ' /run ' /proc/{pid}/mounts | tail -n 1"
    );
    let record = machine.line.run("read-only", 30, &line)?;
    let said = format!("{}{}", record.stderr, record.stdout);
    checks.push(Check::new("service: /run is read-only", said.trim(), is_read_only(&said)));
    let begun = Instant::now();
    machine.pause(PAUSES[0])?;
    let away_s = right::between(PAUSES[0], begun.elapsed());
    let readings = right::look(machine, right::PATIENCE)?;
    let asked = machine.line.run("asked", 30, "parachron status | sed -n 2p")?.stdout;
    machine.execute("umount -l /run")?;
    // Where the journal was read until is noted there.
    let steps = right::steps_s(machine)?;
    let when = "stop, cont with /run read-only";
    let mut check = right::judged(when, &readings, &steps, Some(away_s));
    check.found += &format!("; its status: {}", asked.trim());
    check.passed &= asked.starts_with("clock:") && process(machine)? == pid;
    checks.push(check);
    Ok(())
}

/// Neither file could be made, and the service sees the same.
fn is_read_only(said: &str) -> bool {
    let mount = said.lines().last().and_then(|line| line.split(' ').nth(3));
    let is_so = mount.is_some_and(|options| options.split(',').any(|one| one == "ro"));
    is_so && said.matches("Read-only file system").count() == 2
}

/// Nothing can be written where the lock is: it fails with the reason, and is started
/// again by nobody's hand once it can.
pub(super) fn read_only(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "mount --bind /run/parachron /run/parachron && \
        mount -o remount,bind,ro /run/parachron && systemctl restart parachrond; sleep 3; \
        systemctl show -p SubState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 7 -o cat; umount /run/parachron";
    let since = from_now(machine)?;
    let said = machine.line.run("read-only", 60, line)?.stdout;
    let passed = said.contains("Read-only")
        && said.contains("SubState=auto-restart")
        && said.contains("ExecMainStatus=1\n");
    checks.push(Check::new("service: a folder that is read-only is named", said, passed));
    checks.push(started_again("its folder writable again", machine)?);
    checks.push(soon_right("its folder writable again", machine, since)?);
    Ok(())
}

pub(super) fn started_again(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let said = machine.line.run("by-itself", 150, STARTED_AGAIN)?.stdout;
    let what = format!("service: {when}: it is started automatically");
    Ok(Check::new(what, said.trim(), said.trim() == "active"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_can_be_written_is_not_read_only() {
        let refused = "sh: can't create /run/new: Read-only file system\n";
        let mount = |options: &str| format!("tmpfs /run tmpfs {options},size=202604k 0 0\n");
        assert!(is_read_only(&(refused.repeat(2) + &mount("ro,nosuid,nodev"))));
        assert!(!is_read_only(&(refused.repeat(2) + &mount("rw,nosuid,nodev"))));
        assert!(!is_read_only(&(refused.to_owned() + &mount("ro,nosuid,nodev"))));
        assert!(!is_read_only(&mount("ro")) && !is_read_only(""));
    }
}
