//! How each clock advances: its step, and whether it ever goes back.

use std::time::{Duration, Instant};

use instruments::granularity::StepSizes;
use instruments::measurements::{Granularity, Measurements};
use instruments::order::OrderCount;

use super::plan::MeasurementPlan;
use crate::clock_call::Call;
use linux::clock::LinuxClock;

/// Changes of a clock after which its step is known.
const CHANGES: u64 = 5000;

/// Readings between two checks of the time limit.
const READINGS: u32 = 64;

/// Observes the clocks among `plan.calls`.
pub(super) fn measure(plan: &MeasurementPlan, found: &mut Measurements, progress: &dyn Fn(&str)) {
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
