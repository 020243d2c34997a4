//! The ACPI PM timer: 3,579,545 Hz, with at least 24 bits.

use pvclock::Hertz;

use crate::hardware::Hardware;
use crate::tsc_rate::{MeasuredRate, Timer};

/// Its rate.
pub const FREQUENCY: Hertz = Hertz(3_579_545);

/// The bits that each of them has; Linux reads no more
/// (drivers/clocksource/acpi_pm.c).
pub const MASK: u32 = 0xff_ffff;

/// Its port in QEMU and in our machine.
pub const PORT: u16 = 0x608;

/// Reads that a timer may show the same count for: it counts once in 280 ns.
const TRIES: u32 = 100_000;

/// The count.
pub fn read(hardware: &impl Hardware) -> u32 {
    hardware.port_read_32(PORT) & MASK
}

/// Whether one counts at the usual port: an absent device reads as ones.
pub fn is_there(hardware: &impl Hardware) -> bool {
    let first = hardware.port_read_32(PORT);
    first != u32::MAX && (0..TRIES).any(|_| hardware.port_read_32(PORT) != first)
}

/// The TSC's rate.
pub(crate) fn measure_tsc(hardware: &impl Hardware) -> Option<MeasuredRate> {
    let timer = Timer { read: || read(hardware), mask: MASK, rate: (FREQUENCY.0, 1) };
    timer.measure_tsc(hardware.counter())
}
