#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

#[macro_use]
mod number;

pub mod clocks;
pub mod contention;
pub mod cost;
pub mod discovery;
pub mod hardware;
pub mod hpet;
pub mod layout;
pub mod lock;
pub mod monotonic;
pub mod network;
pub mod pm_timer;
pub mod protocol;
pub mod report;
pub mod request;
pub mod rtc;
pub mod serve;
pub mod source;
mod tsc_rate;
pub mod x2apic;
