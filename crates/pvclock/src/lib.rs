//! Paravirtual clock pages: what a host writes and a guest reads to know the
//! time without leaving user mode.
//!
//! A hypervisor that lets its guest read the CPU's time stamp counter (TSC)
//! still has to say what the counter means. It does so in a page of shared
//! memory: *at this TSC value it was that time, and the TSC runs at this
//! rate*. The guest adds the scaled difference and has the time in a dozen
//! instructions. This crate holds both sides of the four pages in use:
//!
//! | page | module | reader | writer |
//! | --- | --- | --- | --- |
//! | kvm-clock, also Xen's: time of a vCPU | [`kvm_clock`] | [`kvm_clock::TimeReader`] | [`kvm_clock::TimeWriter`] |
//! | kvm-clock: wall clock of the VM | [`kvm_clock`] | [`kvm_clock::WallClockReader`] | [`kvm_clock::WallClockWriter`] |
//! | Hyper-V's reference TSC page | [`hyperv`] | [`hyperv::ReferenceReader`] | [`hyperv::ReferenceWriter`] |
//! | VMClock: time with error bounds, marks of migration | [`vmclock`] | [`vmclock::VmClockReader`] | [`vmclock::VmClockWriter`] |
//! | KVM's steal time | [`steal_time`] | [`steal_time::StealReader`] | [`steal_time::StealWriter`] |
//!
//! All of them rest on one sequence protocol (version, fields, version
//! again), and on one small trait of ordered words, [`shared::Memory`]: the
//! code that is model-checked is the code that runs.
//!
//! A reader returns an error in bounded time whatever the page holds: a page
//! never finished, switched off, of absurd contents, or ahead of the counter.
//!
//! ```
//! use pvclock::kvm_clock::{TimePage, TimeReader, TimeUpdate, TimeWriter};
//! use pvclock::{Hertz, Nanos, Scale};
//!
//! // The host: the TSC ran at 2.6 GHz, and at TSC 1000 it was 5 s.
//! let page = TimePage::new();
//! TimeWriter::new(&page).write(&TimeUpdate {
//!     tsc_timestamp: 1000,
//!     system_time: Nanos(5_000_000_000),
//!     scale: Scale::from_hertz(Hertz(2_600_000_000))?,
//!     stable: true,
//! });
//!
//! // The guest, 2600 cycles later; `|| 3600` stands in for `Tsc`.
//! let now = TimeReader::new(&page).nanos(&|| 3600)?;
//! assert_eq!(now, Nanos(5_000_000_999)); // never ahead: the scale is truncated
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

#[cfg(target_endian = "big")]
compile_error!("the pages are little-endian, and so are the machines that have them");

pub mod counter;
mod error;
pub mod hyperv;
pub mod kvm_clock;
mod scale;
mod sequence;
pub mod shared;
pub mod steal_time;
pub mod vmclock;

pub use error::{PageError, ReadError, ScaleError};
pub use scale::Scale;
pub use sequence::DEFAULT_TRIES;
pub use units::{Hertz, Nanos, Ticks};
