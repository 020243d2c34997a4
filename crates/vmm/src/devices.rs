//! The timers and clocks of a PC, each a set of registers that is handed the
//! time: no device reads a clock by itself.
//!
//! [`Devices`] is what stands on the bus; [`LocalTimer`] is a vCPU's own and
//! is reached by MSR. All of them take whatever a guest writes: what a real
//! device leaves undefined is decided here, said where it is decided, and
//! never a panic. What leaves a device is the return value: bytes read, the
//! [`Interrupt`] that is due, and when to ask again.

mod bus;
mod hpet;
pub mod local_timer;
mod moment;
pub mod pit;
mod pm_timer;
mod rate;
mod rtc;
mod serial;

pub use bus::{Devices, DevicesState, Present, Strays, Unrestorable};
pub use hpet::{Hpet, HpetState};
pub use local_timer::{LocalTimer, LocalTimerState};
pub use moment::{Interrupt, Moment};
pub use pit::{Pit, PitState};
pub use pm_timer::{AcpiPmTimer, PmWidth};
pub use rate::Rate;
pub use rtc::{Rtc, RtcSettings, RtcState};
pub use serial::{SerialPort, SerialPortState};

/// No periodic timer makes the host act more often, whatever the guest
/// programs: KVM's own bound (arch/x86/kvm/lapic.c, `min_timer_period_us`).
pub const MIN_PERIOD: pvclock::Nanos = pvclock::Nanos(200_000);

#[cfg(test)]
mod tests;
