#![doc = include_str!("../README.md")]

mod alarm;
pub mod devices;
mod error;
pub mod guest_fault;
mod handover;
pub mod kvm;
mod linux_boot;
mod machine;
mod memory;
mod network;
pub mod run_delay;
mod settings;
mod shared;
mod vcpu;
mod vmclock;

/// The guest's image, built with this crate: an ELF that this machine enters in 64-bit mode;
/// QEMU, Firecracker and cloud-hypervisor use its PVH note.
pub const GUEST: &[u8] = include_bytes!(env!("GUEST_IMAGE"));

pub use ::kvm::host_clock;
pub use devices::network::NetworkCounts;
pub use error::MachineError;
pub use kvm::Counts;
pub use linux_boot::LinuxImage;
pub use machine::{Machine, RestoredVmClock, SavedMachine};
pub use memory::GuestRam;
pub use settings::{ClockBackend, Settings};
