//! The clock that is kept: the kernel's, or, in a dry run, a simulated one.

use keeper::{Adjustment, ClockError, Slewing};
use linux::adjtimex;
use linux::clock::LinuxClock;
use linux::system_clock::{KernelClock, SetError};
use pvclock::Nanos;
use pvclock::units::LeapSecond;

/// CLOCK_REALTIME, and what corrects it.
#[derive(Debug)]
pub(crate) enum KeptClock {
    /// The kernel.
    Kernel(KernelControl),
    /// Nothing: corrections are simulated, so that a dry run goes on as the
    /// real one would.
    Simulated(Simulated),
}

/// The kernel's clock, and what was last done to it.
#[derive(Debug, Default)]
pub(crate) struct KernelControl {
    clock: KernelClock,
    /// The frequency that was set, or found at the start, ppb.
    frequency_ppb: Option<f64>,
    /// The kernel reported the clock as synchronised until our step reset that.
    was_synchronised: bool,
}

/// How far the clock would be from where it is.
#[derive(Debug, Default)]
pub(crate) struct Simulated {
    stepped_ns: i64,
    slewing: Slewing,
    /// The frequency, and what it has added since it was set.
    frequency: Option<(f64, u64)>,
}

/// The kernel rounds by less.
const SAME_PPB: f64 = 0.02;

impl KeptClock {
    /// The kernel's.
    pub(crate) fn kernel() -> Self {
        Self::Kernel(KernelControl::default())
    }

    /// The frequency that is found, ppb.
    pub(crate) fn found_frequency_ppb(&mut self) -> f64 {
        // A dry run's comes on top of the kernel's.
        let Self::Kernel(kernel) = self else { return 0.0 };
        kernel.frequency_ppb = kernel.clock.frequency_ppb().ok();
        kernel.frequency_ppb.unwrap_or_default()
    }

    /// Puts a tick that another daemon left back to 10 ms: what was found, us, and the
    /// frequency in its place, ppb.
    pub(crate) fn reset_tick(&mut self) -> Option<(i64, f64)> {
        let Self::Kernel(kernel) = self else { return None };
        // It fails for want of permission alone, as a correction does, which is reported.
        kernel.clock.reset_tick().ok().flatten()
    }

    /// Whether the kernel's frequency is another than the one that was set.
    pub(crate) fn is_steered_by_another(&self) -> bool {
        let Self::Kernel(kernel) = self else { return false };
        let both = kernel.frequency_ppb.zip(kernel.clock.frequency_ppb().ok());
        both.is_some_and(|(set_ppb, found_ppb)| (found_ppb - set_ppb).abs() > SAME_PPB)
    }

    /// Makes an adjustment, or none of it.
    pub(crate) fn discipline(&mut self, by: Adjustment) -> Result<(), SetError> {
        by.frequency_ppb.map_or(Ok(()), |ppb| self.set_frequency(ppb))?;
        by.slew_ns.map_or(Ok(()), |by_ns| self.slew(by_ns))
    }

    /// Reports the error after a step beside another daemon: a clock that was
    /// reported as synchronised before is again, and no other.
    pub(crate) fn restore_error(&mut self, error: ClockError) -> Result<(), SetError> {
        let Self::Kernel(kernel) = self else { return Ok(()) };
        if kernel.was_synchronised {
            return self.set_error(error);
        }
        kernel.clock.set_figures(Some(error.max_ns), error.estimated_ns)
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated(_))
    }

    /// How far the clock would be ahead of CLOCK_REALTIME.
    pub(crate) fn ahead_ns(&self) -> i64 {
        match self {
            Self::Kernel(_) => 0,
            Self::Simulated(simulated) => simulated.ahead_ns(monotonic_ns()),
        }
    }
}

impl KeptClock {
    pub(crate) fn now(&self) -> Result<Nanos, SetError> {
        let real_ns = KernelClock.now_ns()?;
        Ok(Nanos(real_ns.saturating_add_signed(self.ahead_ns())))
    }

    pub(crate) fn step(&mut self, by_ns: i64) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => {
                let before = adjtimex::read();
                kernel.clock.step(by_ns)?;
                kernel.was_synchronised |= before.is_ok_and(|before| before.is_synchronised());
            }
            Self::Simulated(simulated) => simulated.step(by_ns, monotonic_ns()),
        }
        Ok(())
    }

    pub(crate) fn slew(&mut self, by_ns: i64) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => kernel.clock.slew(by_ns)?,
            Self::Simulated(simulated) => simulated.slew(by_ns, monotonic_ns()),
        }
        Ok(())
    }

    pub(crate) fn set_error(&mut self, error: ClockError) -> Result<(), SetError> {
        let Self::Kernel(kernel) = self else { return Ok(()) };
        kernel.was_synchronised = false;
        kernel.clock.set_error(error.max_ns, error.estimated_ns)
    }

    pub(crate) fn set_figures(
        &mut self,
        max_ns: Option<u64>,
        estimated_ns: u64,
    ) -> Result<(), SetError> {
        let Self::Kernel(kernel) = self else { return Ok(()) };
        kernel.clock.set_figures(max_ns, estimated_ns)
    }

    pub(crate) fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), SetError> {
        let Self::Kernel(kernel) = self else { return Ok(()) };
        kernel.clock.set_leap(leap)
    }

    /// Refused where another process set it since: two that steer one clock
    /// fight.
    pub(crate) fn set_frequency(&mut self, ppb: f64) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => {
                let found_ppb = kernel.clock.frequency_ppb()?;
                let set_ppb = *kernel.frequency_ppb.get_or_insert(found_ppb);
                if (found_ppb - set_ppb).abs() > SAME_PPB {
                    kernel.frequency_ppb = None;
                    return Err(SetError::SteeredByAnother { set_ppb, found_ppb });
                }
                kernel.clock.set_frequency(ppb)?;
                kernel.frequency_ppb = Some(ppb);
            }
            Self::Simulated(simulated) => simulated.set_frequency(ppb, monotonic_ns()),
        }
        Ok(())
    }
}

impl Simulated {
    fn ahead_ns(&self, now_ns: u64) -> i64 {
        let slewed_ns = self.slewing.by_ns.saturating_sub(self.slewing.left_ns(now_ns));
        let gained_ns = self.frequency.map_or(0, |(ppb, since_ns)| {
            (now_ns.saturating_sub(since_ns) as f64 * ppb * 1e-9) as i64
        });
        self.stepped_ns.saturating_add(slewed_ns).saturating_add(gained_ns)
    }

    fn step(&mut self, by_ns: i64, now_ns: u64) {
        self.begin(now_ns);
        self.stepped_ns = self.stepped_ns.saturating_add(by_ns);
    }

    fn slew(&mut self, by_ns: i64, now_ns: u64) {
        self.begin(now_ns);
        self.slewing = Slewing { by_ns, since_ns: now_ns };
    }

    fn set_frequency(&mut self, ppb: f64, now_ns: u64) {
        let left = Slewing { by_ns: self.slewing.left_ns(now_ns), since_ns: now_ns };
        self.begin(now_ns);
        (self.slewing, self.frequency) = (left, Some((ppb, now_ns)));
    }

    /// What was gained so far is kept; a slew ends.
    fn begin(&mut self, now_ns: u64) {
        let frequency = self.frequency.map(|(ppb, _)| (ppb, now_ns));
        let stepped_ns = self.ahead_ns(now_ns);
        *self = Self { stepped_ns, slewing: Slewing::default(), frequency };
    }
}

/// By how much the clock is behind for certain, if it shows what it cannot be, as without
/// an RTC: systemd sets it to the date of its own release then (`clock-epoch`, systemd(1)),
/// or the kernel to 1970.
pub(crate) fn behind_ns() -> Option<u64> {
    let now_ns = LinuxClock::Realtime.read_ns().unwrap_or_default();
    sources::host::EARLIEST_NS.checked_sub(now_ns).filter(|behind_ns| *behind_ns > 0)
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    LinuxClock::Monotonic.read_ns().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_simulates_its_own_corrections() {
        const S: u64 = 1_000_000_000;
        let mut clock = Simulated::default();
        clock.step(5, 0);
        clock.slew(-1_000_000, S);
        assert_eq!((clock.ahead_ns(S), clock.slewing.left_ns(S)), (5, -1_000_000));
        assert_eq!((clock.ahead_ns(2 * S), clock.slewing.left_ns(2 * S)), (5 - 500_000, -500_000));
        clock.step(7, 2 * S);
        assert_eq!((clock.ahead_ns(9 * S), clock.slewing.left_ns(9 * S)), (12 - 500_000, 0));
        clock.slew(1_000_000, 9 * S);
        clock.set_frequency(2000.0, 10 * S);
        assert_eq!(clock.ahead_ns(11 * S), 12 + 500_000 + 2000);
        clock.set_frequency(0.0, 12 * S);
        assert_eq!(clock.ahead_ns(20 * S), 12 + 500_000 + 4000);
    }

    #[test]
    fn a_simulated_step_leaves_the_real_clock_alone() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let mut clock = KeptClock::Simulated(Simulated::default());
        clock.step(HOUR_NS).unwrap();
        let ahead = clock.now().unwrap().0 - KernelClock.now_ns().unwrap();
        assert!(ahead.abs_diff(HOUR_NS as u64) < HOUR_NS as u64 / 2, "{ahead}");
        assert_eq!(KeptClock::kernel().ahead_ns(), 0);
    }

    /// Where no sandbox forbids reading the frequency.
    #[test]
    fn a_frequency_that_was_not_set_here_is_anothers() {
        let mut clock = KeptClock::kernel();
        let found_ppb = clock.found_frequency_ppb();
        assert!(!clock.is_steered_by_another());
        let frequency_ppb = Some(found_ppb + 1.0);
        let clock = KeptClock::Kernel(KernelControl { frequency_ppb, ..KernelControl::default() });
        assert_eq!(clock.is_steered_by_another(), KernelClock.frequency_ppb().is_ok());
    }
}
