#![doc = include_str!("../README.md")]

mod clock;
mod error;
pub mod host_clock;
mod state;
mod tsc;

pub use clock::{announce_stop, restore_clock, save_clock};
pub use error::Error;
pub use state::{ClockState, RestoredClock, restore, save};
pub use tsc::{HostTsc, RestoredTsc, SavedTsc, set_tsc_offset, tsc_offset};
