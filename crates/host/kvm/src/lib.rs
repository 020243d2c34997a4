#![doc = include_str!("../README.md")]

pub mod arm64;
#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod clock;
mod error;
pub mod host_clock;
#[cfg(feature = "vm-memory")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod saved;
#[cfg(target_arch = "x86_64")]
mod state;
#[cfg(target_arch = "x86_64")]
mod tsc;

#[cfg(target_arch = "x86_64")]
pub use calls::{KvmVcpu, KvmVm};
#[cfg(target_arch = "x86_64")]
pub use clock::{RestoredClock, SavedClock, restore_clock, save_clock};
pub use error::Error;
#[cfg(feature = "vm-memory")]
pub use memory::MappedMemory;
#[cfg(target_arch = "x86_64")]
pub use state::{HostCapabilities, KvmClockState, RestoredState, restore, save};
#[cfg(target_arch = "x86_64")]
pub use tsc::{HostTsc, RestoredTsc, SavedTsc};

// A VMM uses the versions that this crate was built with.
pub use pvclock_host;
pub use {kvm_bindings, kvm_ioctls};
