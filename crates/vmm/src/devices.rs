//! The timers and clocks of a PC, each a set of registers that is passed the
//! time: no device reads a clock by itself.
//!
//! [`Devices`] are those on the bus; [`LocalTimer`] belongs to a vCPU and has
//! MSRs. All of them take whatever a guest writes: where a real device's
//! behaviour is undefined, the code here defines it, with a comment, and never
//! panics. The local timer interrupts, and for Linux the serial port.

mod acpi;
mod bus;
mod hpet;
pub mod local_timer;
pub mod network;
mod rate;
mod rtc;
mod serial;

pub use acpi::AcpiPmTimer;
pub(crate) use acpi::{PM1_CONTROL_BYTES, PM1_CONTROL_PORT, PM1_EVENT_BYTES, PM1_EVENT_PORT};
pub use bus::{Devices, DevicesState};
pub use hpet::Hpet;
pub use local_timer::LocalTimer;
pub use rate::{DeviceRate, Moment};
pub use rtc::RtcChip;
pub use serial::{SerialPort, SerialPortState};

#[cfg(test)]
mod tests;
