//! Stock kernels as guests of Parachron's own virtual machine, on the emulated host's
//! /dev/kvm: `stock-linux` for each kernel of the row, with some numbers of vCPUs.

use std::time::Duration;

use super::{Done, Place};
use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::Failure;

/// What is asked of each kernel, with how many vCPUs.
pub(super) struct Asked {
    options: &'static str,
    vcpus: &'static [u32],
}

/// Five boots, on every provider.
pub(super) const BOOTED: Asked = Asked { options: "", vcpus: &[1, 2] };
/// Three boots, each saved and restored in seven ways.
pub(super) const MOVED: Asked =
    Asked { options: "--away-s 3 --provider kernel,kvm,hyperv", vcpus: &[1, 2, 4] };
/// Three boots by kexec, each then moved.
pub(super) const AGAIN: Asked =
    Asked { options: "--kexec --limit-s 240 --away-s 3 --provider kernel,kvm,hyperv", vcpus: &[2] };
/// Emulated twice.
const LIMIT_S: u32 = 600;
const BOOT: Duration = Duration::from_secs(150);

pub(super) fn run(place: &Place<'_>, asked: &Asked, done: &mut Done) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    machine.line.ready(BOOT).map_err(|why| machine.failure(&why))?;
    for kernel in &place.row.kernels {
        for vcpus in asked.vcpus {
            // An emulated exit takes longer than the kernel's calibration by the PIT
            // allows: it is told the TSC's rate, which is the host's.
            let line = format!(
                "stock-linux --kernel /kernels/{kernel} --initrd /kernels/{kernel}.initrd \
                 --vcpus {vcpus} {} --append $(grep -o 'tsc_early_khz=[0-9]*' /proc/cmdline)",
                asked.options
            );
            let record = machine.line.run("linux", LIMIT_S, &line)?;
            let checks: Vec<Check> = serde_json::from_str(&record.stdout)
                .map_err(|error| format!("{kernel}: {error}: {}", record.stderr.trim()))?;
            for check in checks {
                let what = format!("stock-linux: {kernel}, {vcpus} vCPUs: {}", check.what);
                done.checks.push(Check { what, ..check });
            }
        }
    }
    Ok(())
}
