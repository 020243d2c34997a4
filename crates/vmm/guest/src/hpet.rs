//! The HPET's main counter.

use crate::hardware::Hardware;
use crate::tsc_rate::{MeasuredRate, Timer};

/// Its address in every PC.
pub const BASE: u64 = 0xfed0_0000;
const CONFIGURATION: u64 = BASE + 0x10;
const COUNTER: u64 = BASE + 0xf0;
/// IA-PC HPET specification 1.0a, 2.3.4: at most 100 ns.
const PERIOD_MAX_FS: u64 = 100_000_000;
const FEMTOS_PER_SECOND: u64 = 1_000_000_000_000_000;

/// Its period in femtoseconds; `None` without an HPET.
pub fn period_fs(hardware: &impl Hardware) -> Option<u64> {
    let period = hardware.mmio_read_64(BASE) >> 32;
    (1..=PERIOD_MAX_FS).contains(&period).then_some(period)
}

/// Starts it, if `first`; returns its period.
pub fn start(hardware: &impl Hardware, first: bool) -> Option<u64> {
    let period = period_fs(hardware)?;
    if first {
        let configuration = hardware.mmio_read_64(CONFIGURATION);
        hardware.mmio_write_64(CONFIGURATION, configuration | 1);
    }
    Some(period)
}

/// The low 32 bits, which every HPET has.
pub fn read(hardware: &impl Hardware) -> u32 {
    hardware.mmio_read_64(COUNTER) as u32
}

/// The TSC's rate.
pub(crate) fn measure_tsc(hardware: &impl Hardware) -> Option<MeasuredRate> {
    let rate = (FEMTOS_PER_SECOND, period_fs(hardware)?);
    Timer { read: || read(hardware), mask: u32::MAX, rate }.measure_tsc(hardware.counter())
}
