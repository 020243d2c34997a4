//! A vCPU's own timer: what of an x2APIC a guest needs to sleep and be woken,
//! reached by MSR (Intel SDM volume 3, 12.5.4 and 12.12). Everything else of
//! an APIC is refused.

mod registers;

use pvclock::{Hertz, Nanos};

use super::{MIN_PERIOD, Moment, Rate};
pub use registers::Refused;
use registers::{Lvt, Mode, Register, divisor};

/// After a reset every entry of the vector table is masked.
const LVT_RESET: u32 = 0x1_0000;
/// Spurious vector 0xff, and the APIC switched off by software.
const SPURIOUS_RESET: u32 = 0xff;
const SPURIOUS_ENABLED: u32 = 0x100;
/// Version 0x14, and six entries of the vector table (the last is number 5).
const VERSION: u64 = 5 << 16 | 0x14;
/// Vectors below are exceptions' or none; an APIC does not deliver them.
const FIRST_VECTOR: u8 = 16;

/// A count that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Countdown {
    /// Since when.
    pub since: Nanos,
    /// Ticks to the first expiry; later ones are a period apart.
    pub first: u32,
    /// Expiries that were acted on.
    pub expired: u64,
}

/// What of it is saved, and all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTimerState {
    /// The APIC's id.
    pub id: u32,
    /// What the timer counts, before its divider.
    pub bus: Hertz,
    /// How fast the guest's TSC counts.
    pub tsc: Hertz,
    /// The spurious interrupt register.
    pub spurious: u32,
    /// The timer's entry in the local vector table.
    pub lvt: u32,
    /// The divide configuration.
    pub divide: u32,
    /// The initial count.
    pub initial: u32,
    /// The count in the two modes that count.
    pub countdown: Option<Countdown>,
    /// The TSC value to wait for in the mode that waits; 0 for none.
    pub tsc_deadline: u64,
    /// A vector that is to be delivered.
    pub requested: Option<u8>,
    /// Whether one was delivered and the guest has not ended it yet.
    pub in_service: bool,
}

/// The device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTimer {
    state: LocalTimerState,
}

impl LocalTimer {
    /// As after a reset, in x2APIC mode. `bus` is what the guest is told of
    /// the APIC's frequency (KVM: 1 GHz), `tsc` the real rate of its TSC.
    pub const fn new(id: u32, bus: Hertz, tsc: Hertz) -> Self {
        Self::restore(LocalTimerState {
            id,
            bus,
            tsc,
            spurious: SPURIOUS_RESET,
            lvt: LVT_RESET,
            divide: 0,
            initial: 0,
            countdown: None,
            tsc_deadline: 0,
            requested: None,
            in_service: false,
        })
    }

    /// As it was saved.
    pub const fn restore(state: LocalTimerState) -> Self {
        Self { state }
    }

    /// What to restore it from.
    pub const fn save(&self) -> LocalTimerState {
        self.state
    }

    /// Whether an MSR is one of the timer's: others are somebody else's.
    pub fn has(msr: u32) -> bool {
        Register::of(msr).is_some()
    }

    /// RDMSR.
    ///
    /// # Errors
    /// [`Refused`], for which the guest gets #GP.
    pub fn read_msr(&mut self, msr: u32, now: &Moment) -> Result<u64, Refused> {
        self.advance(now);
        let state = &self.state;
        Ok(match Register::of(msr).ok_or(Refused::NotThere { msr })? {
            Register::TscDeadline => state.tsc_deadline,
            Register::Id => state.id.into(),
            Register::Version => VERSION,
            Register::EndOfInterrupt => return Err(Refused::WriteOnly { msr }),
            Register::Spurious => state.spurious.into(),
            Register::Lvt => state.lvt.into(),
            Register::InitialCount => state.initial.into(),
            Register::CurrentCount => self.current_count(now).into(),
            Register::Divide => state.divide.into(),
        })
    }

    /// WRMSR.
    ///
    /// # Errors
    /// [`Refused`], for which the guest gets #GP; nothing has changed then.
    pub fn write_msr(&mut self, msr: u32, value: u64, now: &Moment) -> Result<(), Refused> {
        self.advance(now);
        let register = Register::of(msr).ok_or(Refused::NotThere { msr })?;
        let allowed = register.writable().ok_or(Refused::ReadOnly { msr, value })?;
        if value & !allowed != 0 {
            return Err(Refused::Reserved { msr, value, allowed });
        }
        let word = value as u32;
        match register {
            Register::TscDeadline => self.write_tsc_deadline(value),
            Register::Id | Register::Version | Register::CurrentCount => {}
            Register::EndOfInterrupt => self.state.in_service = false,
            Register::Spurious => self.write_spurious(word),
            Register::Lvt if Lvt::is_reserved(word) => {
                let allowed = allowed & !Lvt::TSC_DEADLINE;
                return Err(Refused::Reserved { msr, value, allowed });
            }
            Register::Lvt => self.write_lvt(word, now),
            Register::InitialCount => self.write_initial_count(word, now),
            Register::Divide => {
                self.count_on_from(now);
                self.state.divide = word;
            }
        }
        self.advance(now);
        Ok(())
    }

    /// When to ask [`due`](Self::due) next, on the machine's own time: now or
    /// in the past when it is due already. None while nothing can come: not
    /// armed, masked, switched off, or the last interrupt not ended. Ask anew
    /// after each access.
    pub fn deadline(&self, now: &Moment) -> Option<Nanos> {
        if self.state.in_service || !self.enabled() {
            return None;
        }
        if self.state.requested.is_some() {
            return Some(now.since_start);
        }
        if self.lvt().masked {
            return None;
        }
        if self.lvt().mode == Mode::TscDeadline {
            let ticks = self.state.tsc_deadline.saturating_sub(now.guest_tsc.0);
            let wait = Rate::hertz(self.state.tsc).first_at(ticks);
            let armed = self.state.tsc_deadline != 0;
            return armed.then(|| Nanos(now.since_start.0.saturating_add(wait.0)));
        }
        let countdown = self.state.countdown?;
        let periods = countdown.expired.saturating_mul(self.period());
        let wait = self.rate().first_at(periods.saturating_add(countdown.first.into()));
        Some(Nanos(countdown.since.0.saturating_add(wait.0)))
    }

    /// The vector to inject, once. It counts as delivered: ask only while the
    /// vCPU can take an interrupt.
    pub fn due(&mut self, now: &Moment) -> Option<u8> {
        self.advance(now);
        if self.state.in_service || !self.enabled() {
            return None;
        }
        let vector = self.state.requested.take()?;
        self.state.in_service = true;
        Some(vector)
    }

    fn lvt(&self) -> Lvt {
        Lvt::of(self.state.lvt)
    }

    fn enabled(&self) -> bool {
        self.state.spurious & SPURIOUS_ENABLED != 0
    }

    fn rate(&self) -> Rate {
        Rate::hertz(self.state.bus).divided_by(divisor(self.state.divide))
    }

    /// Ticks since a countdown began.
    fn elapsed(&self, countdown: &Countdown, now: &Moment) -> u64 {
        self.rate().ticks(Nanos(now.since_start.0.saturating_sub(countdown.since.0)))
    }

    /// Expiries come one by one in hardware; those that were missed merge,
    /// for an interrupt can be requested only once.
    fn advance(&mut self, now: &Moment) {
        if self.lvt().mode == Mode::TscDeadline {
            let deadline = self.state.tsc_deadline;
            if deadline != 0 && now.guest_tsc.0 >= deadline {
                self.state.tsc_deadline = 0;
                self.expire();
            }
            return;
        }
        let Some(mut countdown) = self.state.countdown else { return };
        let after_first = self.elapsed(&countdown, now).checked_sub(countdown.first.into());
        let Some(after_first) = after_first else { return };
        if self.lvt().mode == Mode::OneShot {
            self.state.countdown = None;
            self.expire();
            return;
        }
        let expiries = after_first / self.period() + 1;
        if expiries > countdown.expired {
            countdown.expired = expiries;
            self.state.countdown = Some(countdown);
            self.expire();
        }
    }

    fn expire(&mut self) {
        let lvt = self.lvt();
        if !lvt.masked && lvt.vector >= FIRST_VECTOR {
            self.state.requested = Some(lvt.vector);
        }
    }

    fn current_count(&self, now: &Moment) -> u32 {
        let Some(countdown) = self.state.countdown else { return 0 };
        let elapsed = self.elapsed(&countdown, now);
        let first = u64::from(countdown.first);
        let left = match elapsed.checked_sub(first) {
            None => first - elapsed,
            Some(_) if self.lvt().mode != Mode::Periodic => 0,
            Some(after_first) => self.period() - after_first % self.period(),
        };
        left as u32
    }

    /// Before the counting changes its pace or mode: what is left is counted
    /// from now on, a part of a tick is dropped.
    fn count_on_from(&mut self, now: &Moment) {
        let left = self.current_count(now);
        if let Some(countdown) = &mut self.state.countdown {
            *countdown = Countdown { since: now.since_start, first: left, expired: 0 };
        }
    }

    fn write_tsc_deadline(&mut self, value: u64) {
        // In the other modes the write is ignored (SDM 12.5.4.1).
        if self.lvt().mode == Mode::TscDeadline {
            self.state.tsc_deadline = value;
        }
    }

    fn write_spurious(&mut self, value: u32) {
        self.state.spurious = value;
        if !self.enabled() {
            self.state.lvt |= Lvt::MASKED;
        }
    }

    fn write_lvt(&mut self, value: u32, now: &Moment) {
        let (old, new) = (self.lvt().mode, Lvt::of(value).mode);
        if old != new {
            self.count_on_from(now);
        }
        // Into or out of the mode that waits for the TSC, the timer stops.
        if (old == Mode::TscDeadline) != (new == Mode::TscDeadline) {
            self.state.countdown = None;
            self.state.tsc_deadline = 0;
        }
        // A switched off APIC's entries stay masked.
        let masked = u32::from(!self.enabled()) * Lvt::MASKED;
        self.state.lvt = value & !Lvt::PENDING | masked;
    }

    fn write_initial_count(&mut self, value: u32, now: &Moment) {
        if self.lvt().mode == Mode::TscDeadline {
            return;
        }
        self.state.initial = value;
        let first = match self.lvt().mode {
            Mode::Periodic => self.period() as u32,
            _ => value,
        };
        let begun = Countdown { since: now.since_start, first, expired: 0 };
        self.state.countdown = (value != 0).then_some(begun);
    }

    /// Ticks between expiries; a period under [`MIN_PERIOD`] is made longer,
    /// as KVM does.
    fn period(&self) -> u64 {
        let least = self.rate().ticks(MIN_PERIOD).clamp(1, u32::MAX.into());
        u64::from(self.state.initial).max(least)
    }
}

#[cfg(test)]
mod tests;
