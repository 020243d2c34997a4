//! Measuring this machine: `platform`'s clocks in `instruments`' hands.

mod costs;
mod cross_cpu;
pub(crate) mod loads;
mod moving;
mod rate;

use std::time::Duration;

use instruments::measurements::Measurements;
use platform::call::Call;
use platform::clocksource_switch::Switchboard;
use platform::cpus::{allowed, pin};

use costs::Costs;
pub(crate) use costs::PAGE;
use rate::RateMeasurement;

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Calls to time.
    pub(crate) calls: Vec<Call>,
    /// Whether to time our own reader of the kvm-clock page.
    pub(crate) page: bool,
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
            costs: budget / 2,
            moving: budget / 40,
            pair: budget / 40,
            pairs: 8,
            ..Self::thorough(budget)
        }
    }

    /// All calls, timed for `costs`, and every clock looked at in earnest.
    pub(crate) fn thorough(costs: Duration) -> Self {
        Self {
            calls: Call::all(),
            page: true,
            samples: u64::MAX,
            costs,
            moving: Duration::from_millis(100),
            pair: Duration::from_millis(200),
            pairs: 64,
        }
    }

    /// How long the whole takes, roughly: two coarse clocks move late.
    pub(crate) fn expected(&self) -> Duration {
        self.costs + self.moving * 2 + self.pair
    }
}

/// A measurement for a diagnosis: everything, in about `budget`.
pub(crate) fn quick(budget: Duration, tell: &dyn Fn(&str)) -> Measurements {
    let mut session = Session::new(Plan::within(budget));
    session.round(1, tell);
    session.finish()
}

/// A measurement under one clocksource, in one round or in several with
/// something else between them.
pub(crate) struct Session {
    plan: Plan,
    /// `None` before the first round: what there is to time depends on the
    /// source in use then.
    costs: Option<Costs>,
    /// ns a cycle, roughly: what to plan with, and to go by where the whole
    /// was too short.
    ns_per_cycle: Option<f64>,
    found: Measurements,
}

impl Session {
    /// Nothing measured yet.
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, costs: None, ns_per_cycle: None, found: Measurements::default() }
    }

    /// One round of `rounds`; `tell` hears what is being done, and often.
    pub(crate) fn round(&mut self, rounds: u32, tell: &dyn Fn(&str)) {
        // Asked first: a pinned thread is allowed one CPU only.
        let cpus = allowed();
        // One CPU for all that follows, so that no sample spans two counters.
        let here = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
        let pinned = pin(here);
        if let Err(error) = &pinned {
            self.found.miss("costs on one CPU", format!("{error}: samples may span two CPUs"));
        }
        let rate = RateMeasurement::start();
        self.ns_per_cycle = rate.ns_per_cycle().or(self.ns_per_cycle);
        let (plan, found) = (&self.plan, &mut self.found);
        let is_first = self.costs.is_none();
        let costs = self.costs.get_or_insert_with(|| {
            found.clocksource = Switchboard::live().current().ok();
            tell("counting calls that enter the kernel");
            Costs::new(plan, found)
        });
        let samples = plan.samples.div_ceil(u64::from(rounds));
        costs.round(plan.costs / rounds, samples, self.ns_per_cycle, tell);
        if is_first {
            moving::measure(plan, found, tell);
        }
        rate.finish(found);
        drop(pinned);
        if is_first {
            cross_cpu::measure(plan, cpus, found, tell);
        }
    }

    /// The result.
    pub(crate) fn finish(mut self) -> Measurements {
        if let Some(costs) = self.costs {
            // The rate over the whole is better than a first look at it.
            let measured = self.found.tsc_rate.map(|rate| 1e9 / rate.hz);
            let ns_per_cycle = self.ns_per_cycle.map(|first_look| measured.unwrap_or(first_look));
            costs.finish(ns_per_cycle, &mut self.found);
        }
        self.found
    }
}

#[cfg(test)]
mod tests;
