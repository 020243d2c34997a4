//! Measuring this machine: `platform`'s clocks in `instruments`' hands.

mod costs;
mod cross_cpu;
mod moving;
mod rate;

use std::time::Duration;

use instruments::measurements::{Measurements, NotMeasured};
use platform::call::Call;
use platform::clocksource_switch::Switchboard;

use rate::RateMeasurement;

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Calls to time.
    pub(crate) calls: Vec<Call>,
    /// Samples of each call at most.
    pub(crate) samples: u64,
    /// Time for the costs of all calls together.
    pub(crate) costs: Duration,
    /// Longest look at one clock's steps and order.
    pub(crate) moving: Duration,
    /// Longest look at one pair of CPUs.
    pub(crate) pair: Duration,
    /// Most pairs of CPUs.
    pub(crate) pairs: usize,
}

impl Plan {
    /// All calls, within `budget` altogether: about half for the costs.
    pub(crate) fn within(budget: Duration) -> Self {
        Self {
            calls: Call::all(),
            samples: u64::MAX,
            costs: budget / 2,
            moving: budget / 40,
            pair: budget / 40,
            pairs: 8,
        }
    }

    /// How long the whole should take.
    pub(crate) fn expected(&self) -> Duration {
        let clocks = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.costs + self.pair.saturating_mul(2) + self.moving.saturating_mul(clocks.min(2))
    }
}

/// A measurement for a diagnosis: everything, in about `budget`.
pub(crate) fn quick(budget: Duration, tell: &dyn Fn(&str)) -> Measurements {
    run(&Plan::within(budget), tell)
}

/// Carries out `plan`; `tell` hears what is being done, and often.
pub(crate) fn run(plan: &Plan, tell: &dyn Fn(&str)) -> Measurements {
    let mut found =
        Measurements { clocksource: Switchboard::live().current().ok(), ..Measurements::default() };
    // Asked first: a pinned thread is allowed one CPU only.
    let cpus = platform::cpus::allowed();
    // One CPU for all that follows, so that no sample spans two counters.
    let here = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
    let pinned = platform::cpus::pin(here);
    if let Err(error) = &pinned {
        let why = format!("{error}: samples may span two CPUs");
        found.not_measured.push(NotMeasured { what: "costs on one CPU".into(), why });
    }
    let rate = RateMeasurement::start();
    costs::measure(plan, &rate, &mut found, tell);
    moving::measure(plan, &mut found, tell);
    found.tsc_rate = rate.finish(&mut found.not_measured);
    drop(pinned);
    cross_cpu::measure(plan, cpus, &mut found, tell);
    found
}

#[cfg(test)]
mod tests;
