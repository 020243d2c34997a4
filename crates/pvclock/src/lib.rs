#![doc = include_str!("../README.md")]
//!
//! # The pages
//!
//! | page | module | reader | writer |
//! | --- | --- | --- | --- |
//! | kvm-clock, also Xen's: time of a vCPU | [`kvm_clock`] | [`kvm_clock::TimeReader`] | [`kvm_clock::TimeWriter`] |
//! | kvm-clock: wall clock of the VM | [`kvm_clock`] | [`kvm_clock::WallClockReader`] | [`kvm_clock::WallClockWriter`] |
//! | Hyper-V's reference TSC page | [`hyperv`] | [`hyperv::ReferenceReader`] | [`hyperv::ReferenceWriter`] |
//! | VMClock: time with error bounds, marks of migration | [`vmclock`] | [`vmclock::VmClockReader`] | [`vmclock::VmClockWriter`] |
//! | ClockBound's segments: a time daemon's error bound | [`clockbound`] | [`clockbound::SegmentReader`] | [`clockbound::SegmentWriter`] |
//! | KVM's steal time | [`steal_time`] | [`steal_time::StealReader`] | [`steal_time::StealWriter`] |
//!
//! All of them rest on one sequence protocol (version, fields, version
//! again), and on one small trait of ordered words, [`shared::Memory`]: the
//! code that is model-checked is the code that runs.
//!
//! A reader returns an error in bounded time whatever the page holds: a page
//! never finished, switched off, of absurd contents, or ahead of the counter.
#![no_std]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

#[cfg(target_endian = "big")]
compile_error!("the pages are little-endian, and so are the machines that have them");

pub mod clockbound;
pub mod counter;
mod error;
pub mod hyperv;
pub mod kvm_clock;
mod page;
mod scale;
mod sequence;
pub mod shared;
pub mod steal_time;
pub mod vmclock;

pub use error::{PageError, ReadError, ScaleError};
pub use scale::Scale;
pub use sequence::DEFAULT_TRIES;
pub use units::{Hertz, Nanos, Ticks};
