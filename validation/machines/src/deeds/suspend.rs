//! Suspend to RAM by the machine, wake-up by QEMU.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::checks::Check;
use crate::machine::Machine;
use crate::qmp;

use super::watching::{self, Caused, Told};

/// How long it sleeps.
const SLEEP: Duration = Duration::from_secs(5);

/// How long it may take to fall asleep.
const FALL: Duration = Duration::from_secs(60);

/// Entering and leaving the state takes time in which the clocks stand and the machine does not
/// sleep yet, or no longer: a hundredth of a second, and more on a busy system.
const AROUND_S: f64 = 0.5;

const WHAT: &str = "suspend to RAM";

pub(super) fn run(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    watching::start(machine)?;
    let (monotonic_s, monotonic_bound_s) = machine.monotonic_ahead_s()?;
    let (before_s, before_bound_s) = machine.ahead_s()?;
    let slept_s = suspended(machine)?;
    let (soon, late) = watching::told(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    let (monotonic_after_s, monotonic_after_bound_s) = machine.monotonic_ahead_s()?;
    let size_s = Some((slept_s + AROUND_S / 2.0, AROUND_S / 2.0));
    let caused = Caused { what: WHAT, kinds: &["suspend"], besides: &[], size_s };
    checks.push(watching::judge(&caused, &soon, &late));
    // The kernel counts it by an RTC of whole seconds, and is ahead or behind by the rest.
    let behind_s = (before_s - after_s, before_bound_s + after_bound_s);
    checks.push(watching::behind(WHAT, behind_s, &soon, &late));
    let stood_s = monotonic_s - monotonic_after_s;
    checks.push(stood(&soon, (stood_s, monotonic_bound_s + monotonic_after_bound_s)));
    watching::end(machine)
}

/// For how long CLOCK_MONOTONIC stood, which does not count suspend, as this system saw.
fn stood(soon: &[Told], (stood_s, bound_s): (f64, f64)) -> Check {
    let told = soon.iter().find_map(|told| told.size_s).ok_or_else(|| "not stated".to_owned());
    let what = format!("watch: {WHAT}: CLOCK_MONOTONIC stopped for {stood_s:.2} ± {bound_s:.2} s");
    Check::of(&what, told, |(told_s, told_bound_s)| {
        let right = (told_s.abs() - stood_s).abs() <= told_bound_s + bound_s;
        (format!("{told_s:.3} ± {told_bound_s:.6} s"), right)
    })
}

/// Suspends it and wakes it up; for how long it slept by QEMU's clock, s.
pub(super) fn suspended(machine: &mut Machine) -> Result<f64, String> {
    machine.line.send("suspend", 60, "echo mem >/sys/power/state")?;
    let qmp = machine.qmp.as_mut().ok_or("suspend needs QMP")?;
    let asleep = qmp.event("SUSPEND", FALL)?;
    sleep(SLEEP);
    qmp.execute("system_wakeup", json!({}))?;
    let awake = qmp.event("WAKEUP", FALL)?;
    machine.line.record("suspend", FALL)?;
    let slept_s = qmp::at_s(&awake).zip(qmp::at_s(&asleep)).map(|(to, from)| to - from);
    slept_s.ok_or_else(|| format!("events without a time: {asleep}, {awake}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_how_long_the_clock_stood() {
        let passed = |size_s: f64, stood_s| {
            let (kinds, size_s) = ("suspend".to_owned(), Some((size_s, 1e-5)));
            stood(&[Told { kinds, size_s, behind_s: None }], (stood_s, 0.1)).passed
        };
        assert!(passed(5.008, 5.01) && passed(5.008, 5.1) && !passed(5.008, 5.2));
        assert!(!stood(&[], (5.01, 0.1)).passed);
    }
}
