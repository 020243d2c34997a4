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
//! | Linux's line for its vDSO | [`vvar`] | [`vvar::VvarClock`] | |
//! | KVM's steal time | [`steal_time`] | [`steal_time::StealReader`] | [`steal_time::StealWriter`] |
//!
//! All of them rest on one sequence protocol (version, fields, version
//! again), and on one small trait of ordered words, [`shared::Memory`]: the
//! code that is model-checked is the code that runs.
//!
//! On a processor without atomic access to 64 bits, only [`units`] and [`counter`] are there.
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

#[cfg(target_has_atomic = "64")]
pub mod clockbound;
pub mod counter;
#[cfg(target_has_atomic = "64")]
mod error;
#[cfg(target_has_atomic = "64")]
pub mod hyperv;
#[cfg(target_has_atomic = "64")]
pub mod kvm_clock;
#[cfg(target_has_atomic = "64")]
mod page;
#[cfg(target_has_atomic = "64")]
mod scale;
#[cfg(target_has_atomic = "64")]
mod sequence;
#[cfg(target_has_atomic = "64")]
pub mod shared;
#[cfg(target_has_atomic = "64")]
pub mod steal_time;
pub mod units;
#[cfg(target_has_atomic = "64")]
pub mod vmclock;
#[cfg(target_has_atomic = "64")]
pub mod vvar;

#[cfg(target_has_atomic = "64")]
pub use error::{PageError, ReadError, ScaleError};
#[cfg(target_has_atomic = "64")]
pub use scale::Scale;
#[cfg(target_has_atomic = "64")]
pub use sequence::DEFAULT_TRIES;
pub use units::{Hertz, Nanos, Ticks, UnixTime};

#[cfg(test)]
extern crate std;
