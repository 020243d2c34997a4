//! A vCPU's own timer: the parts of an x2APIC that a guest needs to sleep until
//! a TSC value or to count ticks, by MSR (Intel SDM volume 3, 12.5.4 and 12.12). It
//! has no one-shot mode; in that the timer never fires. All other parts of an APIC are
//! refused. What becomes of ticks that the vCPU missed is a policy of the host.

mod registers;

use host::ticks::{Backlog, TickPolicy};
use pvclock::{Hertz, Nanos};

use super::{DeviceRate, Moment};
pub use registers::Refused;
use registers::{Lvt, Register};

/// After a reset every entry of the vector table is masked.
const LVT_RESET: u32 = 0x1_0000;
/// Spurious vector 0xff, and the APIC disabled by software.
const SPURIOUS_RESET: u32 = 0xff;
const SPURIOUS_ENABLED: u32 = 0x100;
/// Version 0x14, and six entries of the vector table (the last is number 5).
const VERSION: u64 = 5 << 16 | 0x14;
/// Lower vectors belong to exceptions; an APIC does not deliver them.
const FIRST_VECTOR: u8 = 16;

/// The device, which is its own saved self.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTimer {
    /// The APIC's id.
    id: u32,
    /// The rate of the guest's TSC.
    tsc: Hertz,
    /// The spurious interrupt register.
    spurious: u32,
    /// The timer's entry in the local vector table.
    lvt: u32,
    /// The TSC value at which it fires; 0 for none.
    tsc_deadline: u64,
    /// Nanoseconds of a period, of which each divider counts as many: the bus has
    /// 1 GHz, as KVM's (APIC_BUS_CYCLE_NS, arch/x86/kvm/lapic.h).
    initial_count: u32,
    /// The divider's register.
    divide: u32,
    /// The ticks of a periodic timer that runs.
    ticks: Option<Backlog>,
    /// What becomes of those that the vCPU missed.
    tick_policy: TickPolicy,
    /// A vector that is to be delivered.
    requested: Option<u8>,
    /// Whether one was delivered and the guest has not ended it yet.
    in_service: bool,
}

impl LocalTimer {
    /// As after a reset, in x2APIC mode. `tsc` is the true rate of the guest's
    /// TSC.
    pub const fn new(id: u32, tsc: Hertz) -> Self {
        Self {
            id,
            tsc,
            spurious: SPURIOUS_RESET,
            lvt: LVT_RESET,
            tsc_deadline: 0,
            initial_count: 0,
            divide: 0,
            ticks: None,
            tick_policy: TickPolicy::Merge,
            requested: None,
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
    pub fn has(msr: u32) -> bool {
        Register::from_msr(msr).is_some()
    }

    /// RDMSR.
    ///
    /// # Errors
    /// [`Refused`], for which the guest gets #GP.
    pub fn read_msr(&mut self, msr: u32, now: &Moment) -> Result<u64, Refused> {
        self.advance(now);
        Ok(match Register::from_msr(msr).ok_or(Refused::NotThere { msr })? {
            Register::TscDeadline => self.tsc_deadline,
            Register::Id => self.id.into(),
            Register::Version => VERSION,
            Register::EndOfInterrupt => return Err(Refused::WriteOnly { msr }),
            Register::Spurious => self.spurious.into(),
            Register::Lvt => self.lvt.into(),
            Register::InitialCount => self.initial_count.into(),
            Register::CurrentCount => self.current_count(now),
            Register::Divide => self.divide.into(),
        })
    }

    /// WRMSR.
    ///
    /// # Errors
    /// [`Refused`], for which the guest gets #GP; nothing has changed then.
    pub fn write_msr(&mut self, msr: u32, value: u64, now: &Moment) -> Result<(), Refused> {
        self.advance(now);
        let register = Register::from_msr(msr).ok_or(Refused::NotThere { msr })?;
        let allowed = register.writable().ok_or(Refused::ReadOnly { msr, value })?;
        if value & !allowed != 0 {
            return Err(Refused::Reserved { msr, value, allowed });
        }
        let word = value as u32;
        match register {
            // In the other modes the write is ignored (SDM 12.5.4.1).
            Register::TscDeadline if self.entry().by_tsc => self.tsc_deadline = value,
            Register::TscDeadline => {}
            Register::Id | Register::Version | Register::CurrentCount => {}
            Register::EndOfInterrupt => self.in_service = false,
            Register::Spurious => self.write_spurious(word),
            Register::Lvt if Lvt::is_reserved(word) => {
                let allowed = allowed & !Lvt::TSC_DEADLINE;
                return Err(Refused::Reserved { msr, value, allowed });
            }
            Register::Lvt => self.write_lvt(word, now),
            Register::InitialCount => {
                self.initial_count = word;
                self.start_ticks(now);
            }
            Register::Divide => self.divide = word,
        }
        self.advance(now);
        Ok(())
    }

    /// When to call [`due`](Self::due) next, on the machine's own time: now or
    /// in the past when it is due already. `None` while nothing can come: not
    /// armed, masked, disabled, or the last interrupt not ended. Query it again
    /// after each access.
    pub fn deadline(&self, now: &Moment) -> Option<Nanos> {
        if self.in_service || !self.enabled() {
            return None;
        }
        if self.requested.is_some() {
            return Some(now.since_start);
        }
        if let Some(ticks) = self.ticks.filter(|_| !self.entry().masked) {
            return Some(ticks.next_at());
        }
        if self.entry().masked || !self.entry().by_tsc || self.tsc_deadline == 0 {
            return None;
        }
        let ticks = self.tsc_deadline.saturating_sub(now.guest_tsc.0);
        let wait = DeviceRate::hertz(self.tsc).first_at(ticks);
        Some(Nanos(now.since_start.0.saturating_add(wait.0)))
    }

    /// The vector to inject, once. It counts as delivered: call this only while
    /// the vCPU can take an interrupt.
    pub fn due(&mut self, now: &Moment) -> Option<u8> {
        self.advance(now);
        if self.in_service || !self.enabled() {
            return None;
        }
        let lvt = self.entry();
        if let Some(ticks) = self.ticks.as_mut().filter(|_| !lvt.masked)
            && self.requested.is_none()
            && ticks.take(now.since_start)
            && lvt.vector >= FIRST_VECTOR
        {
            self.requested = Some(lvt.vector);
        }
        let vector = self.requested.take()?;
        self.in_service = true;
        Some(vector)
    }

    fn entry(&self) -> Lvt {
        Lvt::from_entry(self.lvt)
    }

    fn enabled(&self) -> bool {
        self.spurious & SPURIOUS_ENABLED != 0
    }

    fn advance(&mut self, now: &Moment) {
        let (lvt, deadline) = (self.entry(), self.tsc_deadline);
        if deadline == 0 || now.guest_tsc.0 < deadline {
            return;
        }
        self.tsc_deadline = 0;
        if !lvt.masked && lvt.vector >= FIRST_VECTOR {
            self.requested = Some(lvt.vector);
        }
    }

    fn write_spurious(&mut self, value: u32) {
        self.spurious = value;
        if !self.enabled() {
            self.lvt |= Lvt::MASKED;
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
        self.ticks = ticks.filter(|_| self.entry().periodic);
    }

    fn current_count(&self, now: &Moment) -> u64 {
        let left = self.ticks.map(|ticks| ticks.next_at().0.saturating_sub(now.since_start.0));
        left.unwrap_or(0) / self.count_ns()
    }

    fn write_lvt(&mut self, value: u32, now: &Moment) {
        let was = self.entry();
        // Leaving the TSC deadline mode disarms the timer.
        if !Lvt::from_entry(value).by_tsc {
            self.tsc_deadline = 0;
        }
        // The entries of a disabled APIC stay masked.
        let masked = u32::from(!self.enabled()) * Lvt::MASKED;
        self.lvt = value & !Lvt::PENDING | masked;
        // A guest that masked its timer wants none of the ticks since.
        if !self.entry().periodic || was.masked && self.ticks.is_some() {
            self.start_ticks(now);
        }
    }
}

#[cfg(test)]
mod tests;
