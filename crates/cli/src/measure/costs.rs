//! What each call costs, and where it is answered.

use std::time::Instant;

use instruments::cost::{self, Batch, Cost, Stopwatch};
use instruments::measurements::{CallCost, Measurements, NotMeasured, ReadPath};
use platform::call::Call;
use platform::clock::Clock;
use platform::counter::{Counter, Tsc};
use platform::kernel_entries;

use super::Plan;
use super::rate::RateMeasurement;

/// Trial calls of each kind.
const TRIALS: u64 = 1000;

/// Length of a batch, ns: a hundred times what reading the ticks may add.
const BATCH_NS: f64 = 1000.0;

/// Measures the costs of `plan.calls`.
pub(super) fn measure(
    plan: &Plan,
    rate: &RateMeasurement,
    found: &mut Measurements,
    tell: &dyn Fn(&str),
) {
    tell("counting calls that enter the kernel");
    let paths = read_paths(&plan.calls, &mut found.not_measured);
    tell("timing calls");
    let mut batches: Vec<Batch> =
        plan.calls.iter().map(|&call| Box::new(move |times| call.repeat(times)) as Batch).collect();
    let costs = time(plan, rate.ns_per_cycle(), &mut batches, tell);
    for ((call, path), cost) in plan.calls.iter().zip(paths).zip(costs) {
        found.costs.extend(call_cost(call.name(), path, &cost, rate.ns_per_cycle()));
    }
}

/// Times `batches` by the TSC, or where it cannot be read by CLOCK_MONOTONIC_RAW.
fn time(
    plan: &Plan,
    ns_per_cycle: Option<f64>,
    batches: &mut [Batch],
    tell: &dyn Fn(&str),
) -> Vec<Cost> {
    let started = Instant::now();
    let proceed = |_samples| {
        tell("timing calls");
        started.elapsed() < plan.costs
    };
    let ns_per_tick = ns_per_cycle.unwrap_or(1.0);
    let batch_ticks = (BATCH_NS / ns_per_tick).ceil() as u64;
    let plan = cost::Plan { batch_ticks, samples: plan.samples };
    if ns_per_cycle.is_some() {
        let mut stopwatch = Stopwatch::new(|| Tsc.read_ordered());
        cost::measure(&mut stopwatch, batches, plan, proceed)
    } else {
        let mut stopwatch = Stopwatch::new(|| Clock::MonotonicRaw.read_ns().unwrap_or_default());
        cost::measure(&mut stopwatch, batches, plan, proceed)
    }
}

fn call_cost(
    call: String,
    path: ReadPath,
    cost: &Cost,
    ns_per_cycle: Option<f64>,
) -> Option<CallCost> {
    let ticks = cost.ticks.spread()?;
    let ns_per_tick = ns_per_cycle.unwrap_or(1.0);
    Some(CallCost {
        call,
        ns: ticks.scaled(ns_per_tick),
        cycles: ns_per_cycle.map(|_| ticks),
        samples: cost.ticks.samples(),
        calls_per_sample: cost.calls_per_sample,
        outliers: cost.ticks.outliers(),
        path,
        histogram: cost.ticks.bins(ns_per_tick),
    })
}

/// Where each call is answered, by [`TRIALS`] of each.
fn read_paths(calls: &[Call], not_measured: &mut Vec<NotMeasured>) -> Vec<ReadPath> {
    let path = |call: &Call, entered: Option<u64>| match entered {
        _ if call.is_instruction() => ReadPath::Instruction,
        Some(entered) => ReadPath::Counted { calls: TRIALS, entered },
        None => ReadPath::NotCounted,
    };
    match kernel_entries::count(calls, TRIALS) {
        Ok(entered) => calls.iter().zip(entered).map(|(call, n)| path(call, Some(n))).collect(),
        Err(error) => {
            let what = "calls that enter the kernel".into();
            not_measured.push(NotMeasured { what, why: error.to_string() });
            calls.iter().map(|call| path(call, None)).collect()
        }
    }
}
