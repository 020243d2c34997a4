//! A vCPU's own timer: the parts of an x2APIC that a guest needs to count ticks, by MSR
//! (Intel SDM volume 3, 12.5.4 and 12.12). It has the periodic mode alone; in others the
//! timer never fires. All other parts of an APIC are refused. What becomes of ticks that the
//! vCPU missed is a policy of the host.

use guest::x2apic::{DIVIDE, INITIAL_COUNT, LVT_TIMER as LVT, PERIODIC, SPURIOUS};
use host::ticks::{Backlog, TickPolicy};
use pvclock::Nanos;

use super::Moment;

/// Registers that the lab's guest does not use.
const ID: u32 = 0x802;
const VERSION: u32 = 0x803;
const END_OF_INTERRUPT: u32 = 0x80b;
const CURRENT_COUNT: u32 = 0x839;

/// The timer's entry in the local vector table: the vector, and the delivery status, which
/// only the APIC sets; this one delivers at once.
const PENDING: u32 = 1 << 12;
const MASKED: u32 = 1 << 16;

/// Spurious vector 0xff, and the APIC disabled by software.
const SPURIOUS_RESET: u32 = 0xff;
const SPURIOUS_ENABLED: u32 = 0x100;
/// Version 0x14, and six entries of the vector table (the last is number 5).
const VERSION_VALUE: u64 = 5 << 16 | 0x14;
/// Lower vectors belong to exceptions; an APIC does not deliver them.
const FIRST_VECTOR: u8 = 16;

/// The device, which is its own saved self.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTimer {
    /// The APIC's id.
    id: u32,
    /// The spurious interrupt register.
    spurious: u32,
    /// The timer's entry in the local vector table.
    lvt: u32,
    /// Nanoseconds of a period, of which each divider counts as many: the bus has
    /// 1 GHz, as KVM's (APIC_BUS_CYCLE_NS, arch/x86/kvm/lapic.h).
    initial_count: u32,
    /// The divider's register.
    divide: u32,
    /// The ticks of a periodic timer that runs.
    ticks: Option<Backlog>,
    /// What becomes of those that the vCPU missed.
    tick_policy: TickPolicy,
    /// Whether one was delivered and the guest has not ended it yet.
    in_service: bool,
}

impl LocalTimer {
    /// As after a reset, in x2APIC mode.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            spurious: SPURIOUS_RESET,
            lvt: MASKED,
            initial_count: 0,
            divide: 0,
            ticks: None,
            tick_policy: TickPolicy::Merge,
            in_service: false,
        }
    }

    /// The same with another policy for missed ticks; KVM's own is to merge them.
    #[must_use]
    pub const fn with_ticks(mut self, policy: TickPolicy) -> Self {
        self.tick_policy = policy;
        self
    }

    /// Whether an MSR belongs to the timer.
    pub const fn has(msr: u32) -> bool {
        matches!(msr, ID | VERSION | END_OF_INTERRUPT | SPURIOUS)
            || matches!(msr, LVT | INITIAL_COUNT | CURRENT_COUNT | DIVIDE)
    }

    /// RDMSR; `None`: #GP for the guest.
    pub fn read_msr(&self, msr: u32, now: &Moment) -> Option<u64> {
        Some(match msr {
            ID => self.id.into(),
            VERSION => VERSION_VALUE,
            SPURIOUS => self.spurious.into(),
            LVT => self.lvt.into(),
            INITIAL_COUNT => self.initial_count.into(),
            CURRENT_COUNT => self.current_count(now),
            DIVIDE => self.divide.into(),
            _ => return None,
        })
    }

    /// WRMSR; `None`: #GP for the guest, and nothing has changed.
    pub fn write_msr(&mut self, msr: u32, value: u64, now: &Moment) -> Option<()> {
        let allowed = match msr {
            END_OF_INTERRUPT => 0,
            // Vector and enable; focus checking and suppression of broadcasts
            // do not exist here.
            SPURIOUS => 0x1ff,
            // Vector, delivery status (ignored), mask, mode.
            LVT => 0x3_10ff,
            INITIAL_COUNT => u32::MAX.into(),
            DIVIDE => 0b1011,
            _ => return None,
        };
        if value & !allowed != 0 {
            return None;
        }
        let word = value as u32;
        match msr {
            END_OF_INTERRUPT => self.in_service = false,
            SPURIOUS => self.write_spurious(word),
            LVT => self.write_lvt(word, now),
            INITIAL_COUNT => {
                self.initial_count = word;
                self.start_ticks(now);
            }
            DIVIDE => self.divide = word,
            _ => {}
        }
        Some(())
    }

    /// When to call [`due`](Self::due) next, on the machine's own time: now or
    /// in the past when it is due already. `None` while nothing can come: stopped,
    /// masked, disabled, or the last interrupt not ended. Query it again after each access.
    pub fn deadline(&self) -> Option<Nanos> {
        let waits = self.in_service || !self.enabled() || self.has_mode(MASKED);
        self.ticks.filter(|_| !waits).map(|ticks| ticks.next_at())
    }

    /// The vector to inject, once. It counts as delivered: call this only while
    /// the vCPU can take an interrupt.
    pub fn due(&mut self, now: &Moment) -> Option<u8> {
        self.deadline()?;
        let (ticked, vector) = (self.ticks.as_mut()?.take(now.since_start), self.lvt as u8);
        self.in_service = ticked && vector >= FIRST_VECTOR;
        self.in_service.then_some(vector)
    }

    /// Whether a bit of the timer's entry is set.
    const fn has_mode(&self, bit: u32) -> bool {
        self.lvt & bit != 0
    }

    fn enabled(&self) -> bool {
        self.spurious & SPURIOUS_ENABLED != 0
    }

    fn write_spurious(&mut self, value: u32) {
        self.spurious = value;
        if !self.enabled() {
            self.lvt |= MASKED;
        }
    }

    /// ns of one count: the divider's bits 0, 1 and 3 are 2, 4, … 128 and 1.
    fn count_ns(&self) -> u64 {
        let bits = self.divide & 3 | (self.divide >> 1) & 4;
        1 << ((bits + 1) & 7)
    }

    /// From now on, as a write of the initial count has it; ticks of before are
    /// forgotten.
    fn start_ticks(&mut self, now: &Moment) {
        let period = Nanos(u64::from(self.initial_count) * self.count_ns());
        let ticks = Backlog::new(period, self.tick_policy, now.since_start);
        self.ticks = ticks.filter(|_| self.has_mode(PERIODIC));
    }

    fn current_count(&self, now: &Moment) -> u64 {
        let left = self.ticks.map(|ticks| ticks.next_at().0.saturating_sub(now.since_start.0));
        left.unwrap_or(0) / self.count_ns()
    }

    fn write_lvt(&mut self, value: u32, now: &Moment) {
        let was_masked = self.has_mode(MASKED);
        // The entries of a disabled APIC stay masked.
        let masked = u32::from(!self.enabled()) * MASKED;
        self.lvt = value & !PENDING | masked;
        // A guest that masked its timer wants none of the ticks since.
        if !self.has_mode(PERIODIC) || was_masked && self.ticks.is_some() {
            self.start_ticks(now);
        }
    }
}

#[cfg(test)]
mod tests;
