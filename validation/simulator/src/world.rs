//! A guest's surroundings at one moment: what a discipline inside may read and
//! ask, and what it may not know, the truth.

use crate::checks::Checks;
use crate::kernel::SimulatedKernel;
use crate::machine::SimulatedMachine;
use crate::network::{SimulatedNetwork, SimulatedReply};
use crate::outcome::Counts;
use crate::probe::{self, ProbeCount};
use crate::random::{Purpose, RandomStream};
use crate::scenario::Scenario;
use crate::truth::Truth;

/// A read of a page takes less than a microsecond, ns.
const READ_NS: u64 = 1000;

/// A CPU of which the guest has half, in slices.
pub(crate) struct StolenPeriod {
    until_ns: i64,
    slice_ns: i64,
    stream: RandomStream,
}

impl StolenPeriod {
    const fn nothing(stream: RandomStream) -> Self {
        Self { until_ns: 0, slice_ns: 1, stream }
    }

    /// The shortest slice is of 1 ms.
    pub(crate) fn begin(&mut self, slice_ns: i64, until_ns: i64) {
        (self.until_ns, self.slice_ns) = (until_ns, slice_ns.max(1_000_000));
    }

    /// How long what comes for the guest at this time waits for its CPU, ns.
    fn late_ns(&mut self, now_ns: i64) -> f64 {
        if now_ns >= self.until_ns || self.stream.unit() < 0.5 {
            return 0.0;
        }
        self.stream.unit() * self.slice_ns as f64
    }
}

/// What a guest lives in.
pub(crate) struct SimulatedWorld {
    pub(crate) truth: Truth,
    pub(crate) machine: SimulatedMachine,
    pub(crate) kernel: SimulatedKernel,
    pub(crate) network: SimulatedNetwork,
    /// True time.
    pub(crate) now_ns: i64,
    pub(crate) counted: ProbeCount,
    pub(crate) stolen: StolenPeriod,
    pub(crate) checks: Checks,
    pub(crate) counts: Counts,
}

impl SimulatedWorld {
    /// A guest that has booted, its time of day right.
    pub(crate) fn new(scenario: &Scenario, (seed, guest): (u64, u64)) -> Option<Self> {
        let truth = Truth::new(scenario.start_s, scenario.leap_after_day);
        let mut machine = SimulatedMachine::new(scenario.host, (seed, guest), &truth)?;
        Some(Self {
            kernel: SimulatedKernel::boot(scenario.counter, &mut machine, 0, truth.utc_ns(0)),
            truth,
            machine,
            network: SimulatedNetwork::new(scenario, seed, guest),
            now_ns: 0,
            counted: ProbeCount::default(),
            stolen: StolenPeriod::nothing(RandomStream::new(seed, guest, Purpose::Stolen)),
            checks: Checks::default(),
            counts: Counts::default(),
        })
    }

    /// Goes on to this true time, while the guest runs.
    pub(crate) fn advance(&mut self, to_ns: i64) {
        let ran_ns = to_ns - self.now_ns;
        self.counted.ran_ns += ran_ns.max(0).cast_unsigned();
        if self.stolen.until_ns > self.now_ns {
            self.lose(self.stolen.until_ns.min(to_ns) - self.now_ns);
        }
        self.skip(to_ns);
    }

    /// Half of this time is stolen.
    fn lose(&mut self, of_ns: i64) {
        let slice_ns = self.stolen.slice_ns;
        let slices = of_ns.max(0) / (2 * slice_ns);
        self.counted.stolen_ns += (slices * slice_ns).cast_unsigned();
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

    /// Whether a server announces a leap second: on its day, unless it spreads it.
    pub(crate) fn announces_leap(&self, server: usize) -> bool {
        const DAY_NS: i64 = 86_400_000_000_000;
        let ahead_ns = self.truth.leap_ns().map(|leap_ns| leap_ns - self.now_ns);
        ahead_ns.is_some_and(|it| (0..DAY_NS).contains(&it)) && !self.network.smears(server)
    }

    /// Asks a server.
    pub(crate) fn ask(&mut self, server: usize) -> Option<SimulatedReply> {
        let error_ns = self.error_ns();
        let late_ns = self.stolen.late_ns(self.now_ns);
        self.network.ask(server, (self.now_ns, late_ns), error_ns, &self.truth)
    }

    /// The host's time by its VMClock page, if it vouches for it.
    pub(crate) fn ask_vmclock(&mut self) -> Option<SimulatedReply> {
        let [shown_ns, _] = self.kernel.shown_ns();
        let utc = self.machine.read_vmclock(self.now_ns, &self.truth)?;
        let offset_ns = utc.since_1970_ns.saturating_sub(shown_ns);
        // The clock is known to 2 ns, and the page's are cut.
        Some(SimulatedReply { offset_ns, bound_ns: utc.max_error.0.saturating_add(READ_NS) })
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
