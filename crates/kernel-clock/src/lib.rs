#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod accumulator;
mod clocks;
mod jump;
mod kernel;
mod ntp;
mod source;
mod timekeeper;
pub mod timex;
pub mod watchdog;

pub use clocks::KernelClocks;
pub use kernel::{LinuxKernel, Version};
pub use ntp::{LeapState, Ntp};
pub use source::KernelClockSource;
pub use timekeeper::{Refused, Timekeeper};
pub use timex::Timex;

#[cfg(test)]
extern crate std;
