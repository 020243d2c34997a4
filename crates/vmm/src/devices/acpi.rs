//! The fixed registers of ACPI (ACPI specification 6.5, 4.8.3), at the ports that they have on
//! QEMU's PIIX4 and ICH9: event and control registers of a machine without events, which a
//! Linux with ACPI asks for, and the power management timer. Writes change nothing.

use guest::pm_timer;
use pvclock::Hertz;

use super::{DeviceRate, Moment};

/// The first port of the status and enable registers, and how many they have.
pub(crate) const PM1_EVENT_PORT: u16 = 0x600;
pub(crate) const PM1_EVENT_BYTES: u8 = 4;
/// Of the control register.
pub(crate) const PM1_CONTROL_PORT: u16 = 0x604;
pub(crate) const PM1_CONTROL_BYTES: u8 = 2;

/// No status; GBL_EN, which Linux enables and reads again (acpi_enable_event,
/// drivers/acpi/acpica/evxfevnt.c); SCI_EN: ACPI is on.
const PM1: [u8; 6] = [0, 0, 1 << 5, 0, 1, 0];

/// The timer: 24 bits, without a state of its own, as its count follows from the machine's
/// time. It wraps in 4.69 s.
pub struct AcpiPmTimer;

impl AcpiPmTimer {
    /// The first of four ports.
    pub const PORT: u16 = pm_timer::PORT;
    /// Its frequency (ACPI specification, 4.8.3.3).
    pub const FREQUENCY: Hertz = pm_timer::FREQUENCY;
    /// The bits that count.
    pub const MASK: u32 = pm_timer::MASK;

    fn count(now: &Moment) -> u32 {
        DeviceRate::hertz(Self::FREQUENCY).ticks(now.since_start) as u32 & Self::MASK
    }
}

/// The byte at a port, if it is one of these.
pub(super) fn read(port: u16, now: &Moment) -> Option<u8> {
    let byte = |first: u16| port.checked_sub(first).map(usize::from);
    let timer = byte(AcpiPmTimer::PORT)
        .and_then(|byte| AcpiPmTimer::count(now).to_le_bytes().get(byte).copied());
    timer.or_else(|| PM1.get(byte(PM1_EVENT_PORT)?).copied())
}
