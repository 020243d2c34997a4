#![doc = include_str!("../README.md")]

pub mod adjtimex;
pub mod clock;
pub mod clockbound;
pub mod counter;
#[cfg(target_arch = "x86_64")]
pub mod cpuid;
pub mod cpus;
pub mod file_lock;
pub mod generations;
pub mod journal;
pub mod kernel_line;
mod mapping;
pub mod membarrier;
pub mod phc;
pub mod published;
pub mod pvclock_page;
pub mod reread;
pub mod scheduling;
pub mod service_manager;
pub mod signals;
pub mod system_clock;
pub mod vmclock;
pub mod wait;
