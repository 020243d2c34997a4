//! What the CPU and Linux say about this machine's clocks, and how to set them.

pub mod call;
pub mod chrony_control;
pub mod clocksource_switch;
pub mod cross_cpu;
pub mod kernel_entries;
pub mod live;
pub mod mapped_page;
pub mod pipe_pair;
mod privilege;
mod probes;
mod read;
pub mod reference;
pub mod restore_guard;
pub mod sampler;
pub mod system_clock;
pub mod time_source;
pub mod tree;
pub mod vmclock_device;

pub use linux::{clock, counter, cpus, journal, name_lock, service_manager};
pub use read::{read, unpack};

/// Writes past the test harness, which keeps the output of tests that pass.
#[cfg(test)]
pub(crate) fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
