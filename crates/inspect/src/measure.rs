//! Measuring this machine: its clocks and CPUs, read by `instruments`.
//!
//! `progress` arguments are called often, with a label of what is measured now.

mod costs;
mod cross_cpu;

use std::path::Path;
use std::time::{Duration, Instant};

use facts::Fact;
use facts::system::{CpuTime, STAT, parse_cpu_time};
use instruments::granularity::StepSizes;
use instruments::measurements::{ComparedReference, Granularity, Measurements, StolenShare};
use instruments::order::OrderCount;
use instruments::rate::{ReadingPair, rate};
use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};
use linux::cpus::{allowed, pin};
use linux::vmclock::VmClockDevice;
use sources::phc::{PhcScale, hosts_clocks};
use sources::{NtpSource, PhcSource, Source, VmClockSource};

use crate::clock_call::Call;
use crate::clocksource_switch::Switchboard;
use crate::measure::costs::ReadCosts;

pub use costs::PAGE;

/// A measurement for a diagnosis: everything, in about `budget`.
pub fn quick(budget: Duration, progress: &dyn Fn(&str)) -> Measurements {
    let steal = Steal::begin();
    let mut session = MeasuringSession::new(MeasurementPlan::within(budget));
    session.round(1, progress);
    let mut found = session.finish();
    found.stolen = steal.end();
    found
}

/// A measurement under one clocksource, in one round or several; between
/// rounds the caller may do something else.
pub struct MeasuringSession {
    plan: MeasurementPlan,
    /// `None` before the first round: what there is to time depends on the
    /// source in use then.
    costs: Option<ReadCosts>,
    /// ns a cycle, roughly: for planning, and as the result where the run was
    /// too short for a better one.
    ns_per_cycle: Option<f64>,
    found: Measurements,
}

impl MeasuringSession {
    /// Nothing measured yet.
    pub fn new(plan: MeasurementPlan) -> Self {
        Self { plan, costs: None, ns_per_cycle: None, found: Measurements::default() }
    }

    /// One round of `rounds`.
    pub fn round(&mut self, rounds: u32, progress: &dyn Fn(&str)) {
        // Read first: a pinned thread is allowed one CPU only.
        let cpus = allowed();
        // One CPU for all that follows, so that no sample spans two counters.
        let here = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
        let pinned = pin(here);
        if let Err(error) = &pinned {
            self.found.miss("costs on one CPU", format!("{error}: samples may span two CPUs"));
        }
        let rate = RateMeasurement::start();
        self.ns_per_cycle = rate.ns_per_cycle.or(self.ns_per_cycle);
        let (plan, found) = (&self.plan, &mut self.found);
        let is_first = self.costs.is_none();
        let costs = self.costs.get_or_insert_with(|| {
            found.clocksource = Switchboard::live().current().ok();
            progress("counting calls that enter the kernel");
            ReadCosts::new(plan, found)
        });
        let samples = plan.samples.div_ceil(u64::from(rounds));
        costs.round(plan.costs / rounds, samples, self.ns_per_cycle, progress);
        if is_first {
            measure_steps(plan, found, progress);
        }
        rate.finish(found);
        drop(pinned);
        if is_first {
            cross_cpu::measure(plan, cpus, found, progress);
        }
    }

    /// Notes that `what` could not be measured.
    pub fn miss(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.found.miss(what, why);
    }

    /// The result.
    pub fn finish(mut self) -> Measurements {
        if let Some(costs) = self.costs {
            // The rate over the whole run is better than the first estimate.
            let measured = self.found.tsc_rate.map(|rate| 1e9 / rate.hz);
            let ns_per_cycle = self.ns_per_cycle.map(|estimate| measured.unwrap_or(estimate));
            costs.finish(ns_per_cycle, &mut self.found);
        }
        self.found
    }
}

/// Changes of a clock after which its step is known.
const CHANGES: u64 = 5000;

/// Readings between two checks of the time limit.
const READINGS: u32 = 64;

/// Observes the clocks among `plan.calls`.
fn measure_steps(plan: &MeasurementPlan, found: &mut Measurements, progress: &dyn Fn(&str)) {
    for call in &plan.calls {
        let Call::ClockGettime(clock) = *call else { continue };
        progress(&format!("reading the steps of {}", clock.name()));
        observe(clock, plan.steps, found);
    }
}

fn observe(clock: LinuxClock, limit: Duration, found: &mut Measurements) {
    let (mut steps, mut order) = (StepSizes::new(), OrderCount::new());
    let started = Instant::now();
    while steps.changes() < CHANGES && started.elapsed() < limit {
        for reading in (0..READINGS).filter_map(|_| clock.read_ns()) {
            steps.observe(reading);
            order.observe(reading);
        }
    }
    let smallest_step_ns = steps.step_ns();
    if smallest_step_ns.is_none() {
        let why = format!("the clock did not advance within {} ms", limit.as_millis());
        found.miss(format!("granularity of {}", clock.name()), why);
    }
    found.granularity.push(Granularity {
        clock: clock.name().into(),
        smallest_step_ns,
        claimed_ns: clock.claimed_resolution_ns(),
    });
    found.order.push(order.result(clock.name(), 1.0));
}

/// A server that takes longer bounds nothing worth the wait.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Compares the clock with these NTP servers, and with the clock that its host shows, if any.
pub fn compare_references(servers: &[String]) -> Vec<ComparedReference> {
    let mut sources: Vec<Source> = servers
        .iter()
        .map(|name| Source::Ntp(NtpSource::named(name, TIMEOUT)))
        .chain(hosts_clock())
        .collect();
    let offsets = Source::offset_all(&mut sources.iter_mut().collect::<Vec<_>>());
    let compared = |(source, offset): (&Source, Result<pvclock::units::OffsetBound, _>)| {
        let why_not = match &offset {
            Ok(_) if source.status().is_own_clock => Some("it follows its own clock".to_owned()),
            Ok(_) => None,
            Err(why) => Some(sources::SourceError::to_string(why)),
        };
        let offset = offset.ok().filter(|_| why_not.is_none());
        ComparedReference {
            name: source.name(),
            offset_s: offset.map(|offset| offset.offset_ns as f64 / 1e9),
            bound_s: offset.map_or(0.0, |offset| offset.bound_ns as f64 / 1e9),
            why_not,
        }
    };
    sources.iter().zip(offsets).map(compared).collect()
}

/// A device of a driver that shows the host's time, or else its VMClock page.
fn hosts_clock() -> Option<Source> {
    if let Some(path) = hosts_clocks().first()
        && let Fact::Known(phc) = PhcSource::open(path, PhcScale::ByName)
    {
        return Some(Source::Phc(phc));
    }
    match VmClockSource::open(Path::new(VmClockDevice::PATH)) {
        Fact::Known(page) => Some(Source::VmClock(page)),
        Fact::Unknown(_) => None,
    }
}

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    /// Calls to time.
    pub calls: Vec<Call>,
    /// Whether to time our own reader of the kvm-clock page.
    pub page: bool,
    /// Samples of each call at most.
    pub samples: u64,
    /// Time for the costs of all calls together.
    pub costs: Duration,
    /// Time limit for one clock's steps and order.
    pub steps: Duration,
    /// Time limit for one pair of CPUs.
    pub pair: Duration,
    /// Most pairs of CPUs.
    pub pairs: usize,
}

impl MeasurementPlan {
    /// All calls, within `budget` altogether: about half for the costs.
    pub fn within(budget: Duration) -> Self {
        Self {
            costs: budget / 2,
            steps: budget / 40,
            pair: budget / 40,
            pairs: 8,
            ..Self::thorough(budget)
        }
    }

    /// All calls, timed for `costs`, and every clock and pair of CPUs at length.
    pub fn thorough(costs: Duration) -> Self {
        Self {
            calls: Call::all(),
            page: true,
            samples: u64::MAX,
            costs,
            steps: Duration::from_millis(100),
            pair: Duration::from_millis(200),
            pairs: 64,
        }
    }

    /// `clock_gettime(CLOCK_MONOTONIC)` alone, timed for `costs`.
    pub fn monotonic(costs: Duration) -> Self {
        Self {
            calls: vec![Call::ClockGettime(LinuxClock::Monotonic)],
            page: false,
            samples: u64::MAX,
            costs,
            steps: Duration::ZERO,
            pair: Duration::ZERO,
            pairs: 0,
        }
    }

    /// How long the whole takes, roughly: two coarse clocks use their time limit.
    pub fn expected(&self) -> Duration {
        self.costs + self.steps * 2 + self.pair
    }
}

// The TSC's rate against CLOCK_MONOTONIC_RAW, over the whole run.

const REFERENCE: LinuxClock = LinuxClock::MonotonicRaw;

/// Pairs to choose the tightest from.
const TRIES: u32 = 64;

/// Long enough to know the rate to some ppm before the run ends.
const FIRST_ESTIMATE: Duration = Duration::from_millis(5);

/// A measurement in progress.
struct RateMeasurement {
    first: Option<ReadingPair>,
    /// ns a cycle, roughly: for planning, and where the run is too short. `None` where there is no
    /// TSC to read.
    ns_per_cycle: Option<f64>,
}

impl RateMeasurement {
    /// Takes the first pair, and a first estimate of the rate.
    fn start() -> Self {
        let first = counter::is_readable().then(pair).flatten();
        let ns_per_cycle = first.and_then(|first| {
            std::thread::sleep(FIRST_ESTIMATE);
            Some(1e9 / rate(first, pair()?, resolution_ns())?.hz)
        });
        Self { first, ns_per_cycle }
    }

    /// Takes the last pair; of several measurements the tightest is kept.
    fn finish(&self, found: &mut Measurements) {
        let pairs = self.first.zip(pair());
        let rate = pairs.and_then(|(first, last)| rate(first, last, resolution_ns()));
        let known = found.tsc_rate;
        match rate {
            Some(rate) if known.is_none_or(|known| rate.bound_ppm < known.bound_ppm) => {
                found.tsc_rate = Some(rate);
            }
            None if known.is_none() => {
                let why = match (counter::is_readable(), self.first) {
                    (false, _) => "reading the counter is forbidden to this process",
                    (true, None) => "this kernel has no CLOCK_MONOTONIC_RAW",
                    (true, Some(_)) => "the counter or CLOCK_MONOTONIC_RAW did not advance",
                };
                found.miss(format!("{} rate", counter::NAME), why);
            }
            _ => {}
        }
    }
}

/// The counter between two readings of the reference.
fn pair() -> Option<ReadingPair> {
    REFERENCE.read_ns()?;
    // The reading succeeded once, so the clock is there.
    let reference = || REFERENCE.read_ns().unwrap_or_default();
    Some(ReadingPair::tightest(TRIES, || ReadingPair {
        before_ns: reference(),
        tsc: CpuCounter.read_ordered(),
        after_ns: reference(),
    }))
}

fn resolution_ns() -> u64 {
    REFERENCE.claimed_resolution_ns().unwrap_or(1)
}

/// A measurement that has begun.
pub(crate) struct Steal {
    began: Instant,
    before: Option<CpuTime>,
}

impl Steal {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), before: cpu_time() }
    }

    /// `None` where `/proc/stat` does not tell, or a CPU came or went.
    pub(crate) fn end(self) -> Option<StolenShare> {
        let over_s = self.began.elapsed().as_secs_f64();
        let share = cpu_time()?.stolen_since(self.before?, over_s)?;
        Some(StolenShare { share, over_s })
    }
}

fn cpu_time() -> Option<CpuTime> {
    parse_cpu_time(&std::fs::read_to_string(STAT).ok()?).value().copied()
}

#[cfg(test)]
mod tests;
