//! The clock that is kept: the kernel's, or, in a dry run, a simulated one.

use keeper::{ClockError, Slewing, SystemClock};
use linux::clock::Clock;
use linux::system_clock::{KernelClock, SetError};
use pvclock::Nanos;

/// CLOCK_REALTIME, and what corrects it.
#[derive(Debug)]
pub(crate) enum KeptClock {
    /// The kernel.
    Kernel(KernelClock),
    /// Nothing: corrections are simulated, so that a dry run goes on as the
    /// real one would.
    Simulated(Simulated),
}

/// How far the clock would be from where it is.
#[derive(Debug, Default)]
pub(crate) struct Simulated {
    stepped_ns: i64,
    slewing: Slewing,
}

impl KeptClock {
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

impl SystemClock for KeptClock {
    type Error = SetError;

    fn now(&self) -> Result<Nanos, SetError> {
        let real_ns = KernelClock.now_ns()?;
        Ok(Nanos(real_ns.saturating_add_signed(self.ahead_ns())))
    }

    fn step(&mut self, by_ns: i64) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => kernel.step(by_ns)?,
            Self::Simulated(simulated) => simulated.step(by_ns, monotonic_ns()),
        }
        Ok(())
    }

    fn slew(&mut self, by_ns: i64) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => kernel.slew(by_ns)?,
            Self::Simulated(simulated) => simulated.slew(by_ns, monotonic_ns()),
        }
        Ok(())
    }

    fn set_error(&mut self, error: ClockError) -> Result<(), SetError> {
        match self {
            Self::Kernel(kernel) => kernel.set_error(error.max_ns, error.estimated_ns),
            Self::Simulated(_) => Ok(()),
        }
    }
}

impl Simulated {
    fn ahead_ns(&self, now_ns: u64) -> i64 {
        let slewed_ns = self.slewing.by_ns.saturating_sub(self.slewing.left_ns(now_ns));
        self.stepped_ns.saturating_add(slewed_ns)
    }

    fn step(&mut self, by_ns: i64, now_ns: u64) {
        let stepped_ns = self.ahead_ns(now_ns).saturating_add(by_ns);
        *self = Self { stepped_ns, slewing: Slewing::default() };
    }

    fn slew(&mut self, by_ns: i64, now_ns: u64) {
        let slewing = Slewing { by_ns, since_ns: now_ns };
        *self = Self { stepped_ns: self.ahead_ns(now_ns), slewing };
    }
}

/// Whether the clock shows what it cannot be, as without an RTC: systemd sets
/// it to the date of its own release then (`clock-epoch`, systemd(1)), or the
/// kernel to 1970.
pub(crate) fn is_unset() -> bool {
    Clock::Realtime.read_ns().is_none_or(|now_ns| now_ns < sources::host::EARLIEST_NS)
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    Clock::Monotonic.read_ns().unwrap_or_default()
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
    }

    #[test]
    fn a_simulated_step_leaves_the_real_clock_alone() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let mut clock = KeptClock::Simulated(Simulated::default());
        clock.step(HOUR_NS).unwrap();
        let ahead = clock.now().unwrap().0 - KernelClock.now_ns().unwrap();
        assert!(ahead.abs_diff(HOUR_NS as u64) < HOUR_NS as u64 / 2, "{ahead}");
        assert_eq!(KeptClock::Kernel(KernelClock).ahead_ns(), 0);
    }
}
