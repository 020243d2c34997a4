//! What the CPU and Linux say about this machine's clocks, and how to set them.

pub mod call;
pub mod clock;
pub mod clocksource_switch;
pub mod counter;
pub mod cpus;
pub mod cross_cpu;
pub mod fact;
pub mod facts;
pub mod kernel_entries;
pub mod mapped_page;
pub mod pipe_pair;
mod probes;
pub mod reference;
pub mod restore_guard;
pub mod tree;
pub mod watching;
