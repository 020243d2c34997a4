//! Suspend to RAM by the machine, wake-up by QEMU.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checks::Check;
use crate::machine::Machine;

use super::watching::{self, Caused};

/// How long it sleeps.
const SLEEP: Duration = Duration::from_secs(5);

/// How long it may take to fall asleep.
const FALL: Duration = Duration::from_secs(60);

/// Entering and leaving the state takes time in which the clocks still or
/// already run; and the RTC, which measures it, counts whole seconds.
const KNOWN_S: f64 = 1.5;

pub(super) fn run(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    watching::start(machine)?;
    let (before_s, before_bound_s) = machine.ahead_s()?;
    let slept_s = suspended(machine)?;
    let (soon, late) = watching::told(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    let caused = Caused {
        what: "suspend to RAM",
        kinds: &["suspend"],
        besides: &[],
        size_s: Some((slept_s, KNOWN_S)),
    };
    checks.push(watching::judge(&caused, &soon, &late));
    let behind_s = (before_s - after_s, before_bound_s + after_bound_s);
    checks.push(watching::behind("suspend to RAM", behind_s, &soon, &late));
    watching::end(machine)
}

/// Suspends it and wakes it up; for how long it slept, s.
pub(super) fn suspended(machine: &mut Machine) -> Result<f64, String> {
    machine.line.send("suspend", 60, "echo mem >/sys/power/state")?;
    let qmp = machine.qmp.as_mut().ok_or("suspend needs QMP")?;
    qmp.event("SUSPEND", FALL)?;
    let asleep = Instant::now();
    sleep(SLEEP);
    qmp.execute("system_wakeup", json!({}))?;
    let slept_s = asleep.elapsed().as_secs_f64();
    machine.line.record("suspend", FALL)?;
    Ok(slept_s)
}
