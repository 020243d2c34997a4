//! What happens to the machine.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::{Check, Checks};
use crate::deeds::suspend;
use crate::machine::Machine;
use crate::outcome::Result;

use super::setup::{PAUSES, RIGHT_S, WAIT};

/// The service has this long to find the sources, poll and correct, in a machine
/// that is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// A clock that nobody steps gains less than this in that time, s.
pub(super) const STEPPED_S: f64 = 0.2;

/// How often it is stopped, and each time right again within this, s. For two
/// seconds: under emulation all clocks stand but the RTC, which has whole ones.
const OFTEN: u32 = 20;
const OFTEN_WITHIN_S: f64 = 3.0;

/// How many steps the daemon logged since this was last asked.
const STEPS: &str = "timeout 25 journalctl -q -o cat --cursor-file=/run/steps \
    PARACHRON_EVENT=corrected PARACHRON_HOW=step | grep -c .; true";

/// The time of day becomes right; how long that took, how far it was off, and by how
/// many steps.
pub(super) fn soon_right(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let start = Instant::now();
    let mut largest_s: f64 = 0.0;
    loop {
        let (ahead_s, bound_s) = machine.ahead_at_once_s()?;
        let took_s = start.elapsed().as_secs_f64();
        largest_s = if ahead_s.abs() > largest_s.abs() { ahead_s } else { largest_s };
        let right = ahead_s.abs() <= bound_s + RIGHT_S;
        if right || start.elapsed() > PATIENCE {
            let what = format!("service: {when}: right within {} s", PATIENCE.as_secs());
            let found = format!(
                "{ahead_s:.3} ± {bound_s:.3} s ahead after {took_s:.1} s; {largest_s:.3} s at \
                 most; steps: {}",
                machine.execute(STEPS)?
            );
            return Ok(Check::new(what, found, right));
        }
    }
}

/// Stopped without a network: what the RTC alone shows. With it back, right.
pub(super) fn without_network(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute("ip link set eth0 down")?;
    let (before_s, _) = machine.ahead_s()?;
    sleep(WAIT);
    let (after_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "service: without a network the clock is not stepped",
        format!("moved by {:.3} ± {bound_s:.3} s", after_s - before_s),
        (after_s - before_s).abs() <= STEPPED_S + bound_s,
    ));
    machine.pause(PAUSES[0])?;
    machine.execute(
        "ip link set eth0 up; networkctl reconfigure eth0 2>/dev/null; \
        ip addr add 10.0.2.15/24 dev eth0 2>/dev/null; ip route add default via 10.0.2.2 \
        2>/dev/null; true",
    )?;
    checks.push(soon_right("stop, cont without a network, which comes back", machine)?);
    Ok(())
}

/// Stopped again and again: when it was right each time.
pub(super) fn stopped_often(machine: &mut Machine) -> Result<Check, String> {
    let mut took = Vec::new();
    for _ in 0..OFTEN {
        machine.pause(PAUSES[0])?;
        let start = Instant::now();
        loop {
            let (ahead_s, bound_s) = machine.ahead_at_once_s()?;
            if ahead_s.abs() <= bound_s + RIGHT_S || start.elapsed() > PATIENCE {
                break;
            }
        }
        took.push(start.elapsed().as_secs_f64());
        sleep(Duration::from_secs(2));
    }
    took.sort_by(f64::total_cmp);
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    Ok(Check::new(
        format!("service: stop for 2 s, cont, {OFTEN} times: each right within {OFTEN_WITHIN_S} s"),
        format!("{median:.2} s in the median, {most:.2} s at most"),
        most <= OFTEN_WITHIN_S,
    ))
}

/// Suspended to RAM: the kernel corrects the clock by the RTC's whole seconds.
pub(super) fn slept(machine: &mut Machine) -> Result<Check, String> {
    suspend::suspended(machine)?;
    soon_right("suspend to RAM, wake-up", machine)
}

/// Nothing can be stored any more, and a pause is corrected all the same.
pub(super) fn without_room(machine: &mut Machine) -> Result<Check, String> {
    machine.line.run("fill", 120, "dd if=/dev/zero of=/var/fill bs=1M 2>/dev/null; sync")?;
    machine.pause(PAUSES[0])?;
    let check = soon_right("stop, cont on a full disk", machine);
    machine.execute("rm -f /var/fill")?;
    check
}

/// The RTC is set to local time, as for another system beside: it shows how long
/// the machine was away all the same.
pub(super) fn rtc_in_local_time(machine: &mut Machine) -> Result<Check, String> {
    machine.execute("TZ=EST5 hwclock -w -l; sleep 2")?;
    machine.pause(PAUSES[0])?;
    let check = soon_right("stop, cont with the RTC in local time", machine);
    machine.execute("hwclock -w -u; sleep 2")?;
    check
}

/// The machine is out of memory, and then the service itself is what the kernel
/// ends: started again, with its lock and its files.
pub(super) fn without_memory(machine: &mut Machine, checks: &mut Checks) -> Result {
    let pid = "systemctl show -p MainPID --value parachrond";
    // Not of this line's unit, which would end with it (OOMPolicy=). The kernel is
    // told so (Documentation/admin-guide/sysrq.rst): to run out of memory takes an
    // emulated machine minutes.
    let hog = format!(
        "before=$({pid}); systemd-run -q sh -c 'head -c 200000000 /dev/zero | tail'; sleep 12; \
        echo f >/proc/sysrq-trigger; sleep 1; dmesg | grep -i 'killed process' | tail -n 1; \
        [ $before = $({pid}) ] && echo the same"
    );
    let said = machine.line.run("hog", 90, &hog)?.stdout;
    let passed = said.contains("(tail)") && said.contains("the same");
    checks.push(Check::new("service: out of memory: another is ended for it", said.trim(), passed));
    machine.pause(PAUSES[0])?;
    checks.push(soon_right("out of memory, and stop, cont", machine)?);
    let ended = format!(
        "echo 1000 >/proc/$({pid})/oom_score_adj; echo f >/proc/sysrq-trigger; sleep 4; \
        systemctl is-active parachrond; systemctl show -p NRestarts parachrond; \
        journalctl -u parachrond -o cat | grep -i oom | tail -n 1"
    );
    let said = machine.line.run("ended", 60, &ended)?.stdout;
    let passed = said.starts_with("active") && said.contains("oom-kill");
    checks.push(Check::new(
        "service: ended for want of memory, it is started again",
        said.trim(),
        passed,
    ));
    machine.pause(PAUSES[0])?;
    checks.push(soon_right("ended for want of memory, and stop, cont", machine)?);
    Ok(())
}
