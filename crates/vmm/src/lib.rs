//! A virtual machine on /dev/kvm whose time is ours to arrange.

mod alarm;
mod board;
pub mod clock_state;
pub mod death;
pub mod devices;
mod error;
mod gate;
pub mod host_clock;
pub mod image;
pub mod kvm;
mod machine;
mod memory;
pub mod run_delay;
mod settings;
mod vcpu;

pub use error::MachineError;
pub use machine::{Machine, Saved};
pub use memory::GuestRam;
pub use settings::{Backend, Settings};
