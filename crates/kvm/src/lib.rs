#![doc = include_str!("../README.md")]

/// The guide's example is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/for-vmm-builders.md")]
struct ForVmmBuilders;

mod calls;
mod clock;
mod error;
pub mod host_clock;
mod saved;
mod state;
mod tsc;

pub use calls::{KvmVcpu, Vm};
pub use clock::{RestoredClock, SavedClock, restore_clock, save_clock};
pub use error::Error;
pub use saved::KvmDecodeError;
pub use state::{HostCapabilities, KvmClockState, RestoredState, restore, save};
pub use tsc::{HostTsc, RestoredTsc, SavedTsc};
