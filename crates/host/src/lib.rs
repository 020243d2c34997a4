#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

extern crate alloc;

mod cpuid;
mod due;
pub mod event;
mod guest_clock;
pub mod host_clocks;
pub mod hypercall;
mod hyperv;
pub mod kind;
mod log;
mod master;
pub mod memory;
pub mod msr;
pub mod pages;
mod plain_memory;
mod plan;
mod saved;
mod settings;
pub mod ticks;
mod transfer;
mod tsc;
mod vcpu;
pub mod vmclock;

pub use cpuid::Leaf;
pub use due::DueFlag;
pub use event::{HostEvent, VcpuId};
pub use guest_clock::GuestClock;
pub use host_clocks::HostClocks;
pub use kind::{ClockProvider, GuestSystem};
pub use log::{HostLogEvent, LogEntry};
pub use master::PerVcpu;
pub use memory::{ClockAddress, ClockMemory, Misplaced};
pub use msr::{MsrError, MsrRange};
pub use plain_memory::PlainMemory;
pub use plan::{ClockPlan, RestorePolicy, RestoredVcpu, TscPlan};
pub use saved::SavedGuestClock;
pub use settings::{ClockSettings, FrequencyFrom, SettingsError, TscMode};
pub use transfer::{Reenlightenment, RestoreError, RestoredTransfer, StepBound};
pub use tsc::{RatioError, TscRatio};

// Of what is in its own signatures.
pub use pvclock;
pub use pvclock::{Hertz, Nanos, Ticks, UnixTime};
