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
mod privilege;
mod probes;
mod read;
pub mod restore_guard;
pub mod sampler;
mod steal;
pub mod tree;
pub mod vmclock_device;

pub use probes::pvclock_page as mapped_page;
pub use read::{read, unpack};

/// Writes past the test harness, which keeps the output of tests that pass.
#[cfg(test)]
pub(crate) fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
