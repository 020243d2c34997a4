//! The ACPI PM timer: 3,579,545 Hz, with at least 24 bits.

use pvclock::Hertz;
use pvclock::counter::Counter;

use crate::hardware::Hardware;

/// Its rate.
pub const FREQUENCY: Hertz = Hertz(3_579_545);

/// The bits that each of them has; Linux reads no more
/// (drivers/clocksource/acpi_pm.c).
pub const MASK: u32 = 0xff_ffff;

/// Its port in QEMU and in our machine.
const PORT: u16 = 0x608;

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

/// The TSC's rate over some 50 ms. Both ends are the shortest of several reads,
/// so that an interruption there does not matter.
pub fn measure_tsc(hardware: &impl Hardware) -> Option<Hertz> {
    const TICKS: u32 = FREQUENCY.0 as u32 / 20;
    let (tsc_start, start) = paired(hardware);
    for _ in 0..TRIES * 100 {
        if read(hardware).wrapping_sub(start) & MASK >= TICKS {
            break;
        }
    }
    let (tsc_end, end) = paired(hardware);
    let ticks = u128::from(end.wrapping_sub(start) & MASK);
    let cycles = u128::from(tsc_end.checked_sub(tsc_start)?);
    Some(Hertz((cycles * u128::from(FREQUENCY.0)).checked_div(ticks)? as u64))
}

/// The best of some reads: the TSC half-way, and the count.
fn paired(hardware: &impl Hardware) -> (u64, u32) {
    let once = || {
        let before = hardware.counter().read_ordered();
        let count = read(hardware);
        let width = hardware.counter().read_ordered().wrapping_sub(before);
        (width, before.wrapping_add(width / 2), count)
    };
    let mut best = once();
    for _ in 0..8 {
        let next = once();
        // Of two equally short ones either will do.
        if next.0 <= best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}
