//! What a host does for its guests' clocks, as a state machine: events come
//! in, pages are written and a next deadline comes out. No hypervisor, clock,
//! thread or file is in here, so any VMM can use it and any test can drive it.
//!
//! | a VMM | calls |
//! | --- | --- |
//! | makes a VM | [`GuestClock::new`], [`GuestClock::cpuid_leaves`], [`GuestClock::msrs`] |
//! | has an MSR access of its guest | [`GuestClock::read_msr`], [`GuestClock::write_msr`] |
//! | is about to run a vCPU | [`GuestClock::before_entry`] |
//! | sees one of the [`Event`]s | [`GuestClock::handle`] |
//! | traps RDTSC | [`GuestClock::guest_tsc`] |
//! | saves, restores, migrates | [`GuestClock::save`], [`GuestClock::restore`] |
//! | is told when to look again by | [`GuestClock::deadline`] |
//!
//! `docs/protocols/host.md` tells the rules to who writes a host of their own.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

extern crate alloc;

mod calibration;
mod cpuid;
pub mod event;
mod guest_clock;
pub mod kind;
mod log;
mod master;
pub mod memory;
pub mod msr;
mod plain_memory;
pub mod reading;
mod saved;
mod settings;
mod transfer;
mod tsc;
mod vcpu;

pub use calibration::{Calibration, CalibrationError, Sample, calibrate};
pub use cpuid::Leaf;
pub use event::{Event, VcpuId};
pub use guest_clock::GuestClock;
pub use kind::{GuestSystem, Kind};
pub use log::{LogEntry, LogEvent};
pub use master::PerVcpu;
pub use memory::{GuestAddress, GuestMemory, Misplaced};
pub use msr::{MsrError, MsrRange};
pub use plain_memory::PlainMemory;
pub use reading::Reading;
pub use saved::{DecodeError, Saved};
pub use settings::{FrequencyFrom, Settings, SettingsError, TscMode};
pub use transfer::{Policy, Reenlightenment, RestoreError, Restored, RestoredVcpu, StepBound};
pub use tsc::{RatioError, TscRatio};
