//! Stock kernels as guests of the lab's own machine, on the emulated host's
//! /dev/kvm: `parachron lab linux` for each kernel of the row, with one and two
//! vCPUs. Its reports stay in the row's folder.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::agreement::{NOT_MEASURED, of_check};
use super::{Done, Place};
use crate::checks::list;
use crate::machine::Machine;
use crate::outcome::Failure;
use crate::table::Row;

/// What is asked of each kernel, with how many vCPUs.
pub(super) struct Asked {
    options: &'static str,
    vcpus: &'static [u32],
    /// Of each number of vCPUs.
    limit_s: u32,
}

/// Five boots, on every provider.
pub(super) const BOOTED: Asked = Asked { options: "", vcpus: &[1, 2], limit_s: LIMIT_S };
/// Three boots, each saved and restored in eight processes.
pub(super) const MOVED: Asked = Asked {
    options: "--away 3s --provider kvm --provider hyperv",
    vcpus: &[1, 2, 4],
    limit_s: LIMIT_S,
};
/// Three boots by kexec, each then moved.
pub(super) const AGAIN: Asked = Asked {
    options: "--kexec --away 3s --provider kvm --provider hyperv --limit 4min",
    vcpus: &[2],
    limit_s: LIMIT_S,
};
/// Emulated twice.
const LIMIT_S: u32 = 600;
const BOOT: Duration = Duration::from_secs(150);

/// The options of a kernel whose driver is there.
fn vmclock(row: &Row, kernel: &str) -> String {
    let modules = row.kernel_modules.get(kernel).into_iter().flatten();
    modules.map(|name| format!("--vmclock --module /kernels/{kernel}.{name}.ko")).collect()
}

pub(super) fn run(place: &Place<'_>, asked: &Asked, done: &mut Done) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    machine.line.ready(BOOT).map_err(|why| machine.failure(&why))?;
    for kernel in &place.row.kernels {
        for vcpus in asked.vcpus {
            // An emulated exit takes longer than the kernel's calibration by the PIT
            // allows: it is told the TSC's rate, which is the host's.
            let line = format!(
                "parachron lab linux --kernel /kernels/{kernel} --vcpus {vcpus} {} --format json \
                 --append $(grep -o 'tsc_early_khz=[0-9]*' /proc/cmdline) {}",
                asked.options,
                vmclock(place.row, kernel)
            );
            let record = machine.line.run("linux", asked.limit_s, &line)?;
            let report: Value = serde_json::from_str(&record.stdout)
                .map_err(|error| format!("{kernel}: {error}: {}", record.stderr.trim()))?;
            let file = place.folder.join(format!("linux-{kernel}-{vcpus}.json"));
            fs::write(&file, &record.stdout)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let experiments = list(&report["experiments"]);
            // What was not measured is no failure: the result has its figures.
            let checks = experiments.iter().flat_map(|one| list(&one["checks"])).map(of_check);
            for mut check in checks.filter(|check| !check.found.starts_with(NOT_MEASURED)) {
                check.what = format!("lab linux: {kernel}, {vcpus} vCPUs: {}", check.what);
                done.checks.push(check);
            }
        }
    }
    Ok(())
}
