#![doc = include_str!("../README.md")]
//!
//! [`timeline`] is the arithmetic, pure, and all there is without the feature `std`; above it
//! are the few system calls and [`Clock`].
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
mod machine;
pub mod timeline;

#[cfg(feature = "std")]
pub use machine::{
    Clock, Instant, MachineClockStatus, Maintainer, Settings, Source, SystemTime, shared,
};
pub use timeline::bound::ErrorFrom;
pub use timeline::steering::{Distrust, SteeringDisruption};
