//! The report of `parachron bench`: the document of `--format json`.

use instruments::measurements::Measurements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::output::number_of;

/// All that `parachron bench` measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct BenchReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which machine.
    pub(crate) machine: MachineIdentity,
    /// One run for each clocksource, in the order measured.
    pub(crate) runs: Vec<Measurements>,
}

/// The machine measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MachineIdentity {
    /// Kernel release.
    pub(crate) kernel: String,
    /// Processor model.
    pub(crate) cpu: Option<String>,
    /// CPUs this process may use.
    pub(crate) cpus: u32,
}

impl MachineIdentity {
    /// This machine.
    pub(crate) fn this() -> Self {
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: linux::cpus::model(),
            cpus: cpu_count(),
        }
    }

    /// One line: `Linux 6.18, AMD EPYC, 2 CPUs`.
    pub(crate) fn line(&self) -> String {
        let cpu = self.cpu.as_ref().map_or(String::new(), |cpu| format!(", {cpu}"));
        format!("Linux {}{cpu}, {}", self.kernel, number_of(self.cpus.into(), "CPU"))
    }
}

/// Name of the clocksource, or `unknown`.
pub(crate) fn source_name(run: &Measurements) -> &str {
    run.clocksource.as_deref().unwrap_or("unknown")
}

/// CPUs this process may use; 1 where unknown.
fn cpu_count() -> u32 {
    let cpus = linux::cpus::allowed().map_or(1, |cpus| cpus.len());
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// `clock_gettime(CLOCK_MONOTONIC)` as `CLOCK_MONOTONIC`, which is clear in a
/// table or a plot.
pub(crate) fn short_name(call: &str) -> &str {
    call.strip_prefix("clock_gettime(").and_then(|name| name.strip_suffix(')')).unwrap_or(call)
}
