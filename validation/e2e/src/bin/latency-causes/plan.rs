//! What each run measures: on which CPU, for how long, and who is at the other end of the pipes.

use std::process::Command;
use std::time::Duration;

use inspect::latency::LatencyPlan;
use instruments::latency::FigureKind;

/// The argument with which this program is the other end of the pipes.
pub(crate) const ECHO: &str = "pipe-echo";

/// The CPU that is measured, and another.
pub(crate) const MEASURED: u32 = 1;
pub(crate) const OTHER: u32 = 0;

/// Of each run, ms.
pub(crate) const RUN_MS: u64 = 400;

/// A run of these figures on the measured CPU.
pub(crate) fn plan(only: &[FigureKind]) -> LatencyPlan {
    LatencyPlan {
        duration: Duration::from_millis(RUN_MS),
        echo: || {
            let mut command = Command::new("/proc/self/exe");
            command.arg(ECHO);
            command
        },
        peer: None,
        cpus: Some((MEASURED, MEASURED)),
        only: only.to_vec(),
    }
}
