#![doc = include_str!("../README.md")]

mod calls;
mod clock;
mod error;
pub mod host_clock;
#[cfg(feature = "vm-memory")]
mod memory;
mod saved;
mod state;
mod tsc;

pub use calls::{KvmVcpu, KvmVm};
pub use clock::{RestoredClock, SavedClock, restore_clock, save_clock};
pub use error::Error;
#[cfg(feature = "vm-memory")]
pub use memory::MappedMemory;
pub use state::{HostCapabilities, KvmClockState, RestoredState, restore, save};
pub use tsc::{HostTsc, RestoredTsc, SavedTsc};

// A VMM uses the versions that this crate was built with.
pub use pvclock_host;
pub use {kvm_bindings, kvm_ioctls};
