//! Exits to the host by CPUID, which every virtual machine's host serves.

use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use linux::counter::{self, Counter, CpuCounter};

use super::{LatencyRun, now_ns};

const KIND: FigureKind = FigureKind::Exit;

/// Exits from this CPU for `length`.
pub(super) fn measure(run: &mut LatencyRun<'_>, cpu: u32, length: Duration) {
    run.doing(KIND.name());
    let Some(ns_per_tick) = ns_per_tick() else {
        return run.found.miss(KIND.name(), "no TSC to measure it with");
    };
    let Some(_pinned) = run.pinned(KIND.name(), cpu) else { return };
    let mut samples = Distribution::new();
    let ends = Instant::now() + length;
    while Instant::now() < ends {
        for _ in 0..64 {
            let before = CpuCounter.read_ordered();
            std::hint::black_box(raw_cpuid::cpuid!(0));
            let ticks = CpuCounter.read_ordered().saturating_sub(before);
            samples.record(ticks as f64 * ns_per_tick);
        }
    }
    run.found.add_figure(KIND, &samples);
}

/// By CLOCK_MONOTONIC over some milliseconds: to about 10 ppm.
fn ns_per_tick() -> Option<f64> {
    if !counter::is_readable() {
        return None;
    }
    let read = || (now_ns(), CpuCounter.read_ordered());
    let first = read();
    std::thread::sleep(Duration::from_millis(10));
    let last = read();
    let ticks = last.1.checked_sub(first.1).filter(|ticks| *ticks > 0)?;
    Some(last.0.saturating_sub(first.0) as f64 / ticks as f64)
}
