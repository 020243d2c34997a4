#![doc = include_str!("../README.md")]

pub mod adjtimex;
pub mod clock;
pub mod clock_set;
#[cfg(target_arch = "x86_64")]
pub mod counter;
pub mod cpus;
pub mod generations;
pub mod journal;
pub mod name_lock;
pub mod phc;
pub mod pvclock_page;
pub mod reread;
pub mod service_manager;
pub mod system_clock;
pub mod vmclock;
pub mod wait;
