//! The TSC's rate against CLOCK_MONOTONIC_RAW, over the whole run.

use std::time::Duration;

use instruments::measurements::Measurements;
use instruments::rate::{ReadingPair, rate};

use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};

const REFERENCE: LinuxClock = LinuxClock::MonotonicRaw;

/// Pairs to choose the tightest from.
const TRIES: u32 = 64;

/// Long enough to know the rate to some ppm before the run ends.
const FIRST_ESTIMATE: Duration = Duration::from_millis(5);

/// A measurement in progress.
pub(super) struct RateMeasurement {
    first: Option<ReadingPair>,
    /// ns a cycle, roughly: for planning, and where the run is too short.
    ns_per_cycle: Option<f64>,
}

impl RateMeasurement {
    /// Takes the first pair, and a first estimate of the rate.
    pub(super) fn start() -> Self {
        let first = counter::is_readable().then(pair).flatten();
        let ns_per_cycle = first.and_then(|first| {
            std::thread::sleep(FIRST_ESTIMATE);
            Some(1e9 / rate(first, pair()?, resolution_ns())?.hz)
        });
        Self { first, ns_per_cycle }
    }

    /// ns a cycle; `None` where there is no TSC to read.
    pub(super) fn ns_per_cycle(&self) -> Option<f64> {
        self.ns_per_cycle
    }

    /// Takes the last pair; of several measurements the tightest is kept.
    pub(super) fn finish(&self, found: &mut Measurements) {
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
