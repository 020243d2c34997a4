//! The clock that is kept: the kernel's, or, in a dry run, what it would be.

use keeper::{Slewing, SystemClock};
use platform::clock::Clock;
use platform::system_clock::{KernelClock, SetError};
use pvclock::Nanos;

/// CLOCK_REALTIME, and what it is corrected by.
#[derive(Debug)]
pub(super) struct KeptClock {
    hand: Hand,
}

#[derive(Debug)]
enum Hand {
    /// The kernel corrects.
    Kernel(KernelClock),
    /// We only say what would be, and reckon with it: so that a dry run goes
    /// on as the real one would.
    Pretended(Pretended),
}

/// How far the clock would be from where it is.
#[derive(Debug, Default)]
struct Pretended {
    stepped_ns: i64,
    slewing: Slewing,
}

impl KeptClock {
    pub(super) fn kernel() -> Self {
        Self { hand: Hand::Kernel(KernelClock) }
    }

    pub(super) fn pretended() -> Self {
        Self { hand: Hand::Pretended(Pretended::default()) }
    }

    pub(super) fn is_pretended(&self) -> bool {
        matches!(self.hand, Hand::Pretended(_))
    }

    /// How far the clock would be ahead of CLOCK_REALTIME.
    pub(super) fn ahead_ns(&self) -> i64 {
        match &self.hand {
            Hand::Kernel(_) => 0,
            Hand::Pretended(pretended) => pretended.ahead_ns(monotonic_ns()),
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
        match &mut self.hand {
            Hand::Kernel(kernel) => kernel.step(by_ns),
            Hand::Pretended(pretended) => {
                pretended.step(by_ns, monotonic_ns());
                Ok(())
            }
        }
    }

    fn slew(&mut self, by_ns: i64) -> Result<(), SetError> {
        match &mut self.hand {
            Hand::Kernel(kernel) => kernel.slew(by_ns),
            Hand::Pretended(pretended) => {
                pretended.slew(by_ns, monotonic_ns());
                Ok(())
            }
        }
    }
}

impl Pretended {
    fn ahead_ns(&self, now_ns: u64) -> i64 {
        let slewed_ns = self.slewing.by_ns.saturating_sub(self.slewing.left_ns(now_ns));
        self.stepped_ns.saturating_add(slewed_ns)
    }

    fn step(&mut self, by_ns: i64, now_ns: u64) {
        *self = Self {
            stepped_ns: self.ahead_ns(now_ns).saturating_add(by_ns),
            slewing: Slewing::default(),
        };
    }

    fn slew(&mut self, by_ns: i64, now_ns: u64) {
        let slewing = Slewing { by_ns, since_ns: now_ns };
        *self = Self { stepped_ns: self.ahead_ns(now_ns), slewing };
    }
}

fn monotonic_ns() -> u64 {
    Clock::Monotonic.read_ns().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_reckons_with_what_it_would_have_done() {
        const S: u64 = 1_000_000_000;
        let mut clock = Pretended::default();
        clock.step(5, 0);
        clock.slew(-1_000_000, S);
        assert_eq!((clock.ahead_ns(S), clock.slewing.left_ns(S)), (5, -1_000_000));
        assert_eq!((clock.ahead_ns(2 * S), clock.slewing.left_ns(2 * S)), (5 - 500_000, -500_000));
        clock.step(7, 2 * S);
        assert_eq!((clock.ahead_ns(9 * S), clock.slewing.left_ns(9 * S)), (12 - 500_000, 0));
    }

    #[test]
    fn a_pretended_step_leaves_the_real_clock_alone() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let mut clock = KeptClock::pretended();
        clock.step(HOUR_NS).unwrap();
        let ahead = clock.now().unwrap().0 - KernelClock.now_ns().unwrap();
        assert!(ahead.abs_diff(HOUR_NS as u64) < HOUR_NS as u64 / 2, "{ahead}");
        assert_eq!(KeptClock::kernel().ahead_ns(), 0);
    }
}
