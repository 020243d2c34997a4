//! What happens to the machine.

use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::{Check, Checks, is_within};
use crate::deeds::keep::STEPPED_S;
use crate::deeds::suspend;
use crate::machine::Machine;
use crate::outcome::Result;

use super::operator::STARTED_AGAIN;
use super::right::{self, PATIENCE, after_a_stop, right_once};
use super::{PAUSES, WAIT};

/// How often it is stopped, and each time right again within this, s. For two
/// seconds: under emulation all clocks stand but the RTC, which has whole ones.
const OFTEN: u32 = 20;
const OFTEN_WITHIN_S: f64 = 3.0;

pub(super) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    checks.push(stopped_often(machine)?);
    // The kernel corrects the clock by the RTC's whole seconds.
    checks.push(right_once("suspend to RAM, wake-up", machine, suspend::suspended)?);
    // As for another system beside: it shows how long the machine was away all the same.
    machine.execute("TZ=EST5 hwclock -w -l; sleep 2")?;
    let when = "stop, cont with the RTC in local time";
    checks.push(after_a_stop(when, machine, PAUSES[0], "true")?);
    machine.execute("hwclock -w -u; sleep 2")?;
    without_memory(machine, checks)?;
    without_network(machine, checks)
}

/// Stopped without a network: what the RTC alone shows. With it back, right.
fn without_network(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute("ip link set eth0 down")?;
    let (moved_s, bound_s) = machine.moved_s(|_| {
        sleep(WAIT);
        Ok(())
    })?;
    checks.push(Check::new(
        "service: without a network the clock is not stepped",
        format!("moved by {moved_s:.3} ± {bound_s:.3} s"),
        is_within(STEPPED_S, (moved_s, bound_s)),
    ));
    let up = "ip link set eth0 up; networkctl reconfigure eth0 2>/dev/null; \
        ip addr add 10.0.2.15/24 dev eth0 2>/dev/null; ip route add default via 10.0.2.2 \
        2>/dev/null; true";
    let when = "stop, cont without a network, which comes back";
    checks.push(after_a_stop(when, machine, PAUSES[0], up)?);
    Ok(())
}

/// Stopped again and again: when it was right each time, by steps of all that.
fn stopped_often(machine: &mut Machine) -> Result<Check> {
    let mut took = Vec::new();
    right::steps_s(machine)?;
    let mut away = Duration::ZERO;
    for _ in 0..OFTEN {
        let begun = Instant::now();
        machine.pause(PAUSES[0])?;
        away += begun.elapsed();
        let readings = right::look(machine, PATIENCE)?;
        let at_end = readings.last().filter(|one| one.is_right());
        took.push(at_end.map_or(f64::INFINITY, |one| one.after_s));
        sleep(Duration::from_secs(2));
    }
    let steps = right::steps_s(machine)?;
    let stepped = (steps.len(), steps.iter().sum());
    let all_s = right::between(PAUSES[0] * OFTEN, away);
    Ok(often(took, stepped, &all_s))
}

/// Whether each was right soon, and there was a step for each.
fn often(
    mut took: Vec<f64>,
    (steps, stepped_s): (usize, f64),
    all_s: &RangeInclusive<f64>,
) -> Check {
    took.sort_by(f64::total_cmp);
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    Check::new(
        format!("service: stop for 2 s, cont, {OFTEN} times: each right within {OFTEN_WITHIN_S} s"),
        format!(
            "{median:.2} s in the median, {most:.2} s at most; {steps} steps, {stepped_s:.1} s in \
             all, where {:.1} to {:.1} s were due",
            all_s.start(),
            all_s.end()
        ),
        most <= OFTEN_WITHIN_S && steps >= took.len() && all_s.contains(&stepped_s),
    )
}

/// The machine is out of memory, and then the service itself is what the kernel
/// ends: started again, with its lock and its files.
fn without_memory(machine: &mut Machine, checks: &mut Checks) -> Result {
    let pid = "systemctl show -p MainPID --value parachrond";
    // Not of this line's unit, which would end with it (OOMPolicy=). The kernel is
    // told so (Documentation/admin-guide/sysrq.rst): to run out of memory takes an
    // emulated machine minutes.
    let hog = format!(
        "before=$({pid}); systemd-run -q sh -c 'head -c 200000000 /dev/zero | tail'; sleep 12; \
        echo f >/proc/sysrq-trigger; sleep 1; dmesg | grep -i 'killed process' | tail -n 1; \
        [ $before = $({pid}) ] && echo the same"
    );
    let what = "service: out of memory: the kernel kills another process first";
    let is_other = |said: &str| said.contains("(tail)") && said.contains("the same");
    checks.push(machine.says(what, &hog, is_other)?);
    let ended = format!(
        "echo 1000 >/proc/$({pid})/oom_score_adj; echo f >/proc/sysrq-trigger; sleep 4; \
        {STARTED_AGAIN}; journalctl -u parachrond -o cat | grep -i oom | tail -n 1"
    );
    let what = "service: killed for lack of memory, it is started again";
    let is_started = |said: &str| said.starts_with("active") && said.contains("oom-kill");
    checks.push(machine.says(what, &ended, is_started)?);
    let when = "killed for lack of memory, and stop, cont";
    checks.push(after_a_stop(when, machine, PAUSES[0], "true")?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_often_is_right_soon_and_by_its_step() {
        let all_s = 39.5..=46.0;
        let twenty = || vec![0.9; 20];
        assert!(often(twenty(), (20, 41.6), &all_s).passed);
        // Never stepped, or less often than it was stopped, or not right in the end.
        assert!(!often(twenty(), (0, 0.0), &all_s).passed);
        assert!(!often(twenty(), (19, 41.6), &all_s).passed);
        assert!(!often(twenty(), (20, 2.0), &all_s).passed);
        let mut late = twenty();
        late[7] = f64::INFINITY;
        assert!(!often(late, (20, 41.6), &all_s).passed);
    }
}
