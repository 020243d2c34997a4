#![doc = include_str!("../README.md")]

pub mod clock_call;
pub mod clocksource_switch;
pub mod comparison;
pub mod cross_cpu;
pub mod kernel_entries;
pub mod latency;
pub mod live;
pub mod measure;
pub mod pipe_pair;
mod probes;
mod read;
pub mod restore_guard;
pub mod sampler;
pub mod tree;
pub mod vmclock_device;

use facts::{Fact, Unknown};

pub use probes::pvclock_page as mapped_page;
pub use read::{read, unpack};

/// Writes past the test harness, which keeps the output of tests that pass.
#[cfg(test)]
pub(crate) fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The reason behind an error of the system, in reading `what`.
fn unknown_of(what: &str, error: &std::io::Error) -> Unknown {
    Unknown::from_io(what, error, rustix::process::geteuid().is_root())
}

/// A result of the system, in reading `what`, as a fact.
fn fact_of<T>(what: &str, result: std::io::Result<T>) -> Fact<T> {
    result.map_err(|error| unknown_of(what, &error)).into()
}
