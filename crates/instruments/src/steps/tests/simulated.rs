//! Simulated clocks, read by a program that a scheduler interrupts.

use pvclock::units::Bracket;
use pvclock::units::random::SplitMix64;

/// True time in ns, which reading takes some of.
pub(super) struct Reader {
    pub(super) now_ns: u64,
    chance: SplitMix64,
    /// One read in so many waits for the CPU, for up to 20 ms.
    preempted_one_in: u64,
}

impl Reader {
    pub(super) fn new(seed: u64, preempted_one_in: u64) -> Self {
        Self { now_ns: 1_000_000_000_000, chance: SplitMix64::new(seed), preempted_one_in }
    }

    /// Reads `clock`, a function of true time.
    fn read(&mut self, clock: &impl Fn(u64) -> u64) -> u64 {
        self.now_ns += 5 + self.chance.below(20);
        let reading = clock(self.now_ns);
        self.now_ns += 5 + self.chance.below(20);
        if self.chance.below(self.preempted_one_in) == 0 {
            self.now_ns += self.chance.below(20_000_000);
        }
        reading
    }

    /// `inner` between two readings of `outer`: the tightest of four tries.
    pub(super) fn bracket(
        &mut self,
        inner: impl Fn(u64) -> u64,
        outer: impl Fn(u64) -> u64,
    ) -> Bracket {
        let take = || {
            let before = self.read(&outer);
            let inner = self.read(&inner);
            Some(Bracket { before, inner, after: self.read(&outer) })
        };
        Bracket::tightest(4, 0, take).unwrap()
    }

    /// Sleeps for `ns`, and as much longer as the scheduler likes.
    pub(super) fn sleep(&mut self, ns: u64) {
        self.now_ns += ns + self.chance.below(ns);
    }
}
