//! A guest's surroundings at one moment: what a discipline inside may read and
//! ask, and what it may not know, the truth.

use keeper::SystemClock;

use crate::checks::Checks;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::network::{Network, Reply};
use crate::outcome::Counts;
use crate::probe::{self, Counted};
use crate::truth::Truth;

/// What a guest lives in.
pub(crate) struct World {
    pub(crate) truth: Truth,
    pub(crate) machine: Machine,
    pub(crate) kernel: Kernel,
    pub(crate) network: Network,
    /// True time.
    pub(crate) now_ns: i64,
    pub(crate) counted: Counted,
    pub(crate) checks: Checks,
    pub(crate) counts: Counts,
}

impl World {
    /// Goes on to this true time, while the guest runs.
    pub(crate) fn advance(&mut self, to_ns: i64) {
        let ran_ns = to_ns - self.now_ns;
        self.counted.ran_ns += ran_ns.max(0).cast_unsigned();
        self.skip(to_ns);
    }

    /// The same while it does not run.
    pub(crate) fn skip(&mut self, to_ns: i64) {
        self.now_ns = self.now_ns.max(to_ns);
        self.kernel.advance(&mut self.machine, self.now_ns);
    }

    /// What its time of day is ahead of UTC, ns.
    pub(crate) fn error_ns(&self) -> i64 {
        let [realtime_ns, _] = self.kernel.shown_ns();
        realtime_ns.saturating_sub(self.truth.utc_ns(self.now_ns))
    }

    /// CLOCK_MONOTONIC, ns.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        let [_, monotonic_ns] = self.kernel.shown_ns();
        monotonic_ns.max(0).cast_unsigned()
    }

    /// What the probes read.
    pub(crate) fn sample(&mut self) -> facts::Sample {
        self.counts.samples += 1;
        self.checks.monotonic(self.now_ns, self.kernel.clocks().monotonic);
        self.counted.rtc_s =
            self.truth.utc_ns(self.now_ns).div_euclid(1_000_000_000).max(0).cast_unsigned();
        let tsc = self.machine.tsc(self.now_ns);
        probe::sample(&mut self.kernel, &self.machine, tsc, self.counted)
    }

    /// Whether servers announce a leap second: on its day, unless they spread it.
    pub(crate) fn announces_leap(&self) -> bool {
        const DAY_NS: i64 = 86_400_000_000_000;
        let ahead_ns = self.truth.leap_ns().map(|leap_ns| leap_ns - self.now_ns);
        ahead_ns.is_some_and(|it| (0..DAY_NS).contains(&it)) && !self.network.smears()
    }

    /// Asks a server.
    pub(crate) fn ask(&mut self, server: usize) -> Option<Reply> {
        let error_ns = self.error_ns();
        self.network.ask(server, self.now_ns, error_ns, &self.truth)
    }

    /// The host's time, read without a network.
    pub(crate) fn ask_host(&mut self) -> Reply {
        /// A read of a PTP clock takes a microsecond.
        const READ_NS: u64 = 1000;
        let host_ns = self.machine.host_error_ns(self.now_ns, &self.truth);
        let bound_ns = READ_NS + self.machine.host_bound_ns();
        Reply { offset_ns: host_ns - self.error_ns(), bound_ns }
    }

    /// Steps the clock.
    pub(crate) fn step(&mut self, by_ns: i64) -> bool {
        self.counts.steps += 1;
        self.kernel.step(by_ns).is_ok()
    }

    /// Slews it at 500 ppm.
    pub(crate) fn slew(&mut self, by_ns: i64) -> bool {
        self.counts.slews += 1;
        self.kernel.slew(by_ns).is_ok()
    }
}
