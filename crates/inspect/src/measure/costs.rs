//! What each way to read the time costs, and where it is served: by an
//! instruction, the vDSO or the kernel.

use std::hint::black_box;
use std::time::{Duration, Instant};

use facts::Fact;
use instruments::cost::{self, Batch, Cost, Stopwatch};
use instruments::measurements::{CallCost, Measurements, ReadPath};
use pvclock::kvm_clock::TimeReader;

use crate::clock_call::Call;
use crate::measure::MeasurementPlan;
use crate::{kernel_entries, mapped_page};
use linux::clock::LinuxClock;
use linux::counter::{Counter, CpuCounter};

/// Trial calls of each kind.
const TRIALS: u64 = 1000;

/// Length of a batch, ns: a hundred times what reading the ticks may add.
const BATCH_NS: f64 = 1000.0;

/// Its least length in ticks: arm64's counters tick each 1 to 52 ns.
const BATCH_TICKS: f64 = 50.0;

/// Our own readers of the page that the vDSO reads under kvm-clock.
pub const PAGE: [&str; 2] = ["pvclock page", "pvclock page, ordered"];

/// Costs, accumulated round by round.
pub(super) struct ReadCosts {
    names: Vec<String>,
    paths: Vec<ReadPath>,
    batches: Vec<Batch<'static>>,
    /// Empty before the first round.
    costs: Vec<Cost>,
}

impl ReadCosts {
    /// Determines what there is to time, and where calls are served.
    pub(super) fn new(plan: &MeasurementPlan, found: &mut Measurements) -> Self {
        let mut costs = Self {
            names: plan.calls.iter().map(|call| call.name()).collect(),
            paths: read_paths(&plan.calls, found),
            batches: Vec::new(),
            costs: Vec::new(),
        };
        for &call in &plan.calls {
            costs.batches.push(Box::new(move |times| call.repeat(times)));
        }
        if plan.page {
            match page_batches() {
                Ok(batches) => {
                    costs.batches.extend(batches);
                    costs.names.extend(PAGE.map(str::to_owned));
                    costs.paths.extend([ReadPath::Instruction; 2]);
                }
                Err(why) => found.miss(PAGE[0], why),
            }
        }
        costs
    }

    /// Times everything for `length`, or up to `samples` of each, by the TSC,
    /// or by CLOCK_MONOTONIC_RAW where the TSC cannot be read.
    pub(super) fn round(
        &mut self,
        length: Duration,
        samples: u64,
        ns_per_cycle: Option<f64>,
        progress: &dyn Fn(&str),
    ) {
        if ns_per_cycle.is_some() {
            self.time(
                Stopwatch::new(|| CpuCounter.read_ordered()),
                length,
                samples,
                ns_per_cycle,
                progress,
            );
        } else {
            let ticks = || LinuxClock::MonotonicRaw.read_ns().unwrap_or_default();
            self.time(Stopwatch::new(ticks), length, samples, None, progress);
        }
    }

    fn time<T: FnMut() -> u64>(
        &mut self,
        mut stopwatch: Stopwatch<T>,
        length: Duration,
        samples: u64,
        ns_per_tick: Option<f64>,
        progress: &dyn Fn(&str),
    ) {
        let started = Instant::now();
        if self.costs.is_empty() {
            let batch_ticks =
                (BATCH_NS / ns_per_tick.unwrap_or(1.0)).ceil().max(BATCH_TICKS) as u64;
            self.costs = cost::prepare(&mut stopwatch, &mut self.batches, batch_ticks);
        }
        cost::measure(&mut stopwatch, &mut self.batches, &mut self.costs, samples, || {
            progress("timing calls");
            started.elapsed() < length
        });
    }

    /// The result.
    pub(super) fn finish(self, ns_per_cycle: Option<f64>, found: &mut Measurements) {
        let named = self.names.into_iter().zip(self.paths).zip(self.costs);
        found.costs.extend(
            named.filter_map(|((name, path), cost)| call_cost(name, path, &cost, ns_per_cycle)),
        );
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

/// Reads of the kvm-clock page in place, unordered and ordered.
fn page_batches() -> Result<[Batch<'static>; 2], String> {
    let page = match mapped_page::in_place() {
        Fact::Known(page) => page,
        Fact::Unknown(why) => return Err(why.to_string()),
    };
    let reader = TimeReader::new(page);
    reader.nanos_ordered(&CpuCounter).map_err(|error| error.to_string())?;
    let unordered = move |times| {
        for _ in 0..times {
            black_box(&reader.nanos(&CpuCounter));
        }
    };
    let ordered = move |times| {
        for _ in 0..times {
            black_box(&reader.nanos_ordered(&CpuCounter));
        }
    };
    Ok([Box::new(unordered), Box::new(ordered)])
}

/// Where each call is served, by [`TRIALS`] of each.
fn read_paths(calls: &[Call], found: &mut Measurements) -> Vec<ReadPath> {
    let path = |call: &Call, entered: Option<u64>| match entered {
        _ if call.is_instruction() => ReadPath::Instruction,
        Some(entered) => ReadPath::Counted { calls: TRIALS, entered },
        None => ReadPath::NotCounted,
    };
    match kernel_entries::count(calls, TRIALS) {
        Ok(entered) => calls.iter().zip(entered).map(|(call, n)| path(call, Some(n))).collect(),
        Err(error) => {
            found.miss("calls that enter the kernel", error.to_string());
            calls.iter().map(|call| path(call, None)).collect()
        }
    }
}
