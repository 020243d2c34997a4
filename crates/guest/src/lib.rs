//! What runs inside the lab's virtual machine, and the format it reports in.
//!
//! All of it is handed its hardware, so the same code runs in the guest image
//! (`crates/guest/image`), where the hardware is the CPU, and in tests and
//! hosts without KVM, where it is a model of one.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

pub mod clocks;
pub mod cost;
pub mod discovery;
pub mod hardware;
pub mod hpet;
pub mod layout;
pub mod monotonic;
pub mod pit;
pub mod pm_timer;
pub mod protocol;
pub mod report;
pub mod request;
pub mod rtc;
pub mod serve;
pub mod source;
