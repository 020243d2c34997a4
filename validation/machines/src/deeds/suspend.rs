//! Suspend to RAM by the machine, wake-up by QEMU.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::checks::Check;
use crate::machine::Machine;

use super::watching::{self, Caused};

/// How long it sleeps.
const SLEEP: Duration = Duration::from_secs(5);

/// How long it may take to fall asleep.
const FALL: Duration = Duration::from_secs(60);

const WHAT: &str = "suspend to RAM";

pub(super) fn run(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    let (_, seen) = watching::during(machine, suspended)?;
    // CLOCK_MONOTONIC does not count it.
    let size_s = Some(seen.stood);
    let caused = Caused { what: WHAT, kinds: &["suspend"], besides: &[], size_s };
    checks.push(watching::judge(&caused, &seen));
    // The kernel counts it by an RTC of whole seconds, and is ahead or behind by the rest.
    checks.push(watching::behind(WHAT, &seen, 0.0));
    Ok(())
}

/// Suspends it and wakes it up.
pub(super) fn suspended(machine: &mut Machine) -> Result<(), String> {
    machine.line.send("suspend", 60, "echo mem >/sys/power/state")?;
    let qmp = machine.qmp.as_mut().ok_or("suspend needs QMP")?;
    qmp.event("SUSPEND", FALL)?;
    sleep(SLEEP);
    qmp.execute("system_wakeup", json!({}))?;
    qmp.event("WAKEUP", FALL)?;
    machine.line.record("suspend", FALL).map(drop)
}
