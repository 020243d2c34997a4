//! The HPET's main counter. By its registers its comparators cannot be routed: a guest
//! uses it as a clock only (IA-PC HPET 1.0a).

use pvclock::Nanos;

use super::{DeviceRate, Moment};

const CAPABILITIES: u64 = 0x00;
const CONFIGURATION: u64 = 0x10;
const MAIN_COUNTER: u64 = 0xf0;

/// Capabilities, low word: revision 1, two comparators (the field holds the number of
/// the last) as Linux takes no HPET with fewer (hpet_enable, arch/x86/kernel/hpet.c), no
/// legacy routing, 64-bit counter, vendor 0x8086 as in all emulations.
const CAPABILITIES_LOW: u64 = 0x8086_2101;
/// Configuration: the counter runs. Bit 1, legacy routing of comparators, stays 0.
const ENABLED: u64 = 1;

/// The device, which is its own saved state; after a reset it is halted at 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hpet {
    /// The counter when it was last halted, written or started.
    pub counter: u64,
    /// When it was started, unless it is halted.
    pub running_since: Option<Nanos>,
}

impl Hpet {
    /// Its address in every PC.
    pub const ADDRESS: u64 = guest::hpet::BASE;
    /// The size of its registers.
    pub const BYTES: u64 = 0x400;
    /// What identifies it in ACPI: the capabilities' low word.
    pub const ID: u32 = CAPABILITIES_LOW as u32;
    /// Its period, as in QEMU: 10 ns. At most 100 ns are allowed.
    pub const PERIOD_FS: u32 = 10_000_000;

    /// Reads 4 or 8 aligned bytes at an offset; `false` for other accesses,
    /// which the specification leaves undefined.
    pub fn read(&self, offset: u64, data: &mut [u8], now: &Moment) -> bool {
        if !is_whole(offset, data.len()) {
            return false;
        }
        let value = self.register(offset & !7, now).to_le_bytes();
        let first = (offset & 7) as usize;
        data.copy_from_slice(&value[first..first + data.len()]);
        true
    }

    /// Writes 4 or 8 aligned bytes, and ignores other writes.
    pub fn write(&mut self, offset: u64, data: &[u8], now: &Moment) {
        if !is_whole(offset, data.len()) {
            return;
        }
        let register = offset & !7;
        let mut value = self.register(register, now).to_le_bytes();
        let first = (offset & 7) as usize;
        value[first..first + data.len()].copy_from_slice(data);
        let value = u64::from_le_bytes(value);
        match register {
            CONFIGURATION => self.configure(value & ENABLED != 0, now),
            // A running counter ignores writes, as in QEMU.
            MAIN_COUNTER if self.running_since.is_none() => self.counter = value,
            _ => {}
        }
    }

    fn configure(&mut self, enable: bool, now: &Moment) {
        if enable != self.running_since.is_some() {
            self.counter = self.count(now);
            self.running_since = enable.then_some(now.since_start);
        }
    }

    fn register(&self, register: u64, now: &Moment) -> u64 {
        match register {
            CAPABILITIES => u64::from(Self::PERIOD_FS) << 32 | CAPABILITIES_LOW,
            CONFIGURATION => u64::from(self.running_since.is_some()) * ENABLED,
            MAIN_COUNTER => self.count(now),
            _ => 0,
        }
    }

    fn count(&self, now: &Moment) -> u64 {
        let Some(since) = self.running_since else { return self.counter };
        let elapsed = Nanos(now.since_start.0.saturating_sub(since.0));
        // 10^6 fs are one ns.
        let ticks = DeviceRate::new(1_000_000, Self::PERIOD_FS as u64).ticks(elapsed);
        self.counter.wrapping_add(ticks)
    }
}

fn is_whole(offset: u64, bytes: usize) -> bool {
    matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes as u64)
}

#[cfg(test)]
mod tests;
