//! Measuring this machine: its clocks and CPUs, read by `instruments`.
//!
//! `progress` arguments are called often, with a label of what is measured now.

mod costs;
mod cross_cpu;
mod plan;
mod rate;
mod references;
mod steps;

use std::time::Duration;

use instruments::measurements::Measurements;

use crate::clocksource_switch::Switchboard;
use crate::steal::Steal;
pub use costs::PAGE;
use costs::ReadCosts;
use linux::cpus::{allowed, pin};
pub use plan::MeasurementPlan;
use rate::RateMeasurement;
pub use references::compare;

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
        self.ns_per_cycle = rate.ns_per_cycle().or(self.ns_per_cycle);
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
            steps::measure(plan, found, progress);
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

#[cfg(test)]
mod tests;
