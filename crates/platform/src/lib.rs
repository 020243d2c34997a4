//! What the CPU and Linux say about this machine's clocks, and how to set them.

mod again;
pub mod call;
pub mod chronyd_client;
pub mod clock;
pub mod clocksource_switch;
pub mod counter;
pub mod cpus;
pub mod cross_cpu;
pub mod journal;
pub mod kernel_entries;
pub mod mapped_page;
pub mod name_lock;
pub mod pipe_pair;
mod privilege;
mod probes;
mod read;
pub mod reference;
pub mod resident;
pub mod restore_guard;
pub mod service_manager;
pub mod system_clock;
pub mod time_source;
pub mod tree;
pub mod vmclock_device;
pub mod watching;

pub use read::{read, unpack};
