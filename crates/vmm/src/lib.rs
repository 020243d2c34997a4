#![doc = include_str!("../README.md")]

mod alarm;
mod barrier;
pub mod devices;
mod entry;
mod error;
pub mod guest_fault;
pub mod image;
mod kicks;
pub mod kvm;
mod linux_boot;
mod machine;
mod memory;
mod network;
pub mod reply;
pub mod run_delay;
mod settings;
mod shared;
mod vcpu;
mod vmclock;

pub use ::kvm::{KvmClockState, host_clock};
pub use error::MachineError;
pub use kvm::Counts;
pub use linux_boot::LinuxImage;
pub use machine::{FileError, Machine, RestoredVmClock, SavedMachine};
pub use memory::GuestRam;
pub use network::NetworkCounts;
pub use settings::{ClockBackend, Settings};
pub use vmclock::MachineVmClockSource;
