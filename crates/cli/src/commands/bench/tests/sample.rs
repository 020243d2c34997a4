//! Reports made by hand, for the tests of every form they are printed in.

use instruments::measurements::{
    CallCost, Granularity, Measurements, Order, ReadPath, Skew, Spread, TscRate,
};

use super::report::{BenchReport, MachineIdentity};

fn cost(call: &str, median: f64, path: ReadPath) -> CallCost {
    let ns =
        Spread { min: median * 0.98, median, p99: median * 1.2, max: median * 40.0 + 12_345.0 };
    CallCost {
        call: call.into(),
        ns,
        cycles: Some(ns.scaled(2.5)),
        samples: 1000,
        calls_per_sample: 64,
        outliers: 12,
        path,
        histogram: vec![(ns.min, 600), (ns.median, 388), (ns.p99, 11), (ns.max, 1)],
    }
}

/// A run under `source`, where a clock read costs `ns`.
pub(super) fn run(source: &str, ns: f64) -> Measurements {
    let entered = if ns > 500.0 { 1000 } else { 0 };
    let path = ReadPath::Counted { calls: 1000, entered };
    let mut measurements = Measurements {
        clocksource: Some(source.into()),
        costs: vec![
            cost("rdtsc", 8.59, ReadPath::Instruction),
            cost("clock_gettime(CLOCK_MONOTONIC)", ns, path),
            cost(
                "clock_gettime(CLOCK_PROCESS_CPUTIME_ID)",
                ns + 600.0,
                ReadPath::Counted { calls: 1000, entered: 990 },
            ),
        ],
        granularity: vec![Granularity {
            clock: "CLOCK_MONOTONIC".into(),
            smallest_step_ns: Some(70),
            claimed_ns: Some(1),
        }],
        skews: vec![Skew {
            cpu_a: 0,
            cpu_b: 127,
            offset_ns: -12.25,
            bound_ns: 41.5,
            round_trips: 20_000,
        }],
        order: vec![
            Order {
                clock: "CLOCK_MONOTONIC".into(),
                readings: 5055,
                backward: 0,
                largest_backward_ns: 0.0,
            },
            Order {
                clock: "TSC across CPUs".into(),
                readings: 59_999,
                backward: 3,
                largest_backward_ns: 1250.0,
            },
        ],
        references: Vec::new(),
        stolen: None,
        tsc_rate: Some(TscRate { hz: 2_445_428_123.0, bound_ppm: 0.0234, over_s: 2.1 }),
        not_measured: Vec::new(),
    };
    measurements.miss("pvclock page", "does not apply: the clocksource was never kvm-clock");
    measurements
}

/// A report of `runs`.
pub(super) fn report(runs: Vec<Measurements>) -> BenchReport {
    BenchReport {
        version: "0.2.0".into(),
        machine: MachineIdentity {
            kernel: "6.18.0".into(),
            cpu: Some("AMD EPYC".into()),
            cpus: 128,
        },
        runs,
    }
}

/// Three sources, one of a long name and one slow.
pub(super) fn three_sources() -> BenchReport {
    let sources = [("tsc", 27.1), ("hyperv_clocksource_tsc_page", 31.3), ("acpi_pm", 64_512.0)];
    report(sources.into_iter().map(|(source, ns)| run(source, ns)).collect())
}
