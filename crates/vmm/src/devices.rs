//! The timers and clocks of a PC, each a set of registers that is passed the
//! time: no device reads a clock by itself.
//!
//! [`Devices`] are those on the bus; [`LocalTimer`] belongs to a vCPU and has
//! MSRs. All of them take whatever a guest writes: where a real device's
//! behaviour is undefined, the code here defines it, with a comment, and never
//! panics. Only the local timer interrupts.

mod bus;
mod hpet;
pub mod local_timer;
mod moment;
pub mod network;
pub mod pit;
mod pm1;
mod pm_timer;
mod rate;
mod rtc;
mod serial;

pub use bus::{Devices, DevicesState, Present, Unrestorable};
pub use hpet::Hpet;
pub use local_timer::LocalTimer;
pub use moment::Moment;
pub use pit::Pit;
pub use pm_timer::{AcpiPmTimer, PmWidth};
pub(crate) use pm1::{PM1_CONTROL_BYTES, PM1_CONTROL_PORT, PM1_EVENT_BYTES, PM1_EVENT_PORT};
pub use rate::DeviceRate;
pub use rtc::{RtcChip, RtcSettings};
pub use serial::{SerialPort, SerialPortState};

#[cfg(test)]
mod tests;
