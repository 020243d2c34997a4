//! The CPU of a host without a constant TSC changes its frequency: its KVM hears
//! of it (kvmclock_cpufreq_notifier, arch/x86/kvm/x86.c) and gives the machine's
//! page another scale. That is no migration.

use std::io::Write as _;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::wire;

use super::Place;
use super::watching::{self, Caused};

/// The frequencies of the host's driver (`zoo/src/base/scaled_cpu.c`).
const FREQUENCIES: &str = "/sys/devices/system/cpu/cpu0/cpufreq";

/// Chooses the lowest and the highest, and the lowest again.
const CHANGES: [&str; 3] = ["min", "max", "min"];

/// An emulated CPU goes on at its rate: the page is wrong by 100 ppm until the host
/// writes it anew, by its own clock.
const BESIDES: &[&str] = &["host-stepped"];

/// The scale of the machine's page.
const SCALE: &str = "rm -rf /tmp/scale; parachron capture /tmp/scale >/dev/null; \
    grep tsc_to_system_mul /tmp/scale/parachron/pvclock-page";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut shell = wire::connect(&place.folder.join("shell"))?;
    for to in CHANGES {
        watching::start(machine)?;
        let before = machine.execute(SCALE)?;
        let line = format!(
            "cd {FREQUENCIES}; echo userspace >scaling_governor; cat cpuinfo_{to}_freq \
             >scaling_setspeed\n"
        );
        shell.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        let (soon, late) = watching::told(machine)?;
        let after = machine.execute(SCALE)?;
        let what = "the host's CPU at another frequency";
        checks.push(Check::new(
            format!("watch: {what}: the page has another scale"),
            format!("{before}, then {after}"),
            before != after,
        ));
        let caused = Caused { what, kinds: &[], besides: BESIDES, size_s: None };
        checks.push(watching::judge(&caused, &soon, &late));
        watching::end(machine)?;
    }
    Ok(())
}
