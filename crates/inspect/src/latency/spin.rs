//! What a thread that never sleeps sees: gaps, exits, and its own speed.

use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::around::{self, Counts, Passed};
use instruments::latency::cause::Cause;
use instruments::latency::conditions::Speed;
use instruments::latency::{Delay, FigureKind, ShortGaps};
use linux::counter::{self, Counter, Tsc};
use linux::cpus::pin;

use super::counters::{Counters, Stops};
use super::{Run, now_ns};

/// Time on one CPU before the next.
const BURST: Duration = Duration::from_millis(100);

/// A gap is at least this long, ns: no cache miss, nor any instruction.
const GAP_NS: f64 = 2_000.0;

/// From here on each gap is looked into, ns.
const LONG_NS: f64 = 30_000.0;

/// CPUs looked at, at most.
const CPUS: usize = 16;

/// Gaps on all CPUs in turn.
pub(super) fn gaps(run: &mut Run<'_>, stops: &Stops, length: Duration) {
    run.doing(FigureKind::Gap.name());
    let Some(ns_per_tick) = ns_per_tick() else {
        let why = "reading the TSC is forbidden to this process, or it does not advance";
        return run.found.miss(FigureKind::Gap.name(), why);
    };
    let mut spinner = Spinner::new(ns_per_tick);
    let ends = Instant::now() + length;
    let cpus: Vec<u32> = match run.plan.cpus {
        Some((one, _)) => vec![one],
        None => run.cpus.iter().copied().take(CPUS).collect(),
    };
    for cpu in cpus.iter().cycle() {
        if Instant::now() >= ends {
            break;
        }
        let _pinned = pin(*cpu);
        let delays = spinner.burst(run, &mut Counters::open(*cpu, stops));
        run.delayed(delays);
    }
    run.found.found(FigureKind::Gap, &spinner.gaps);
    if spinner.stolen.samples() > 0 {
        run.found.found(FigureKind::Stolen, &spinner.stolen);
    }
    run.found.conditions.speed = Speed::of(&spinner.speeds);
    run.found.short_gaps = spinner.short;
}

/// Exits to the host by CPUID, which every virtual machine's host serves.
pub(super) fn exits(run: &mut Run<'_>, cpu: u32, length: Duration) {
    run.doing(FigureKind::Exit.name());
    let Some(ns_per_tick) = ns_per_tick() else {
        return run.found.miss(FigureKind::Exit.name(), "no TSC to time it by");
    };
    let _pinned = pin(cpu);
    let mut samples = Distribution::new();
    let ends = Instant::now() + length;
    while Instant::now() < ends {
        for _ in 0..64 {
            let before = Tsc.read_ordered();
            std::hint::black_box(raw_cpuid::cpuid!(0));
            let ticks = Tsc.read_ordered().saturating_sub(before);
            samples.record(ticks as f64 * ns_per_tick);
        }
    }
    run.found.found(FigureKind::Exit, &samples);
}

/// What reading CLOCK_MONOTONIC costs, ns: the least mean of some batches.
pub(super) fn clock_read_ns() -> f64 {
    let batch = |_| {
        let started = now_ns();
        for _ in 0..100 {
            std::hint::black_box(now_ns());
        }
        now_ns().saturating_sub(started) as f64 / 101.0
    };
    (0..20).map(batch).fold(f64::INFINITY, f64::min)
}

/// By CLOCK_MONOTONIC over some milliseconds: to about 10 ppm.
fn ns_per_tick() -> Option<f64> {
    if !counter::is_readable() {
        return None;
    }
    let read = || (now_ns(), Tsc.read_ordered());
    let first = read();
    std::thread::sleep(Duration::from_millis(10));
    let last = read();
    let ticks = last.1.checked_sub(first.1).filter(|ticks| *ticks > 0)?;
    Some(last.0.saturating_sub(first.0) as f64 / ticks as f64)
}

struct Spinner {
    ns_per_tick: f64,
    gaps: Distribution,
    stolen: Distribution,
    short: Vec<ShortGaps>,
    /// ns a turn for each ms, a list for each burst.
    speeds: Vec<Vec<f64>>,
}

impl Spinner {
    fn new(ns_per_tick: f64) -> Self {
        Self {
            ns_per_tick,
            gaps: Distribution::new(),
            stolen: Distribution::new(),
            short: Vec::new(),
            speeds: Vec::new(),
        }
    }

    /// One burst, on the CPU that this thread is pinned to; its long gaps.
    fn burst(&mut self, run: &Run<'_>, counters: &mut Counters) -> Vec<Delay> {
        let ticks = |ns: f64| (ns / self.ns_per_tick) as u64;
        let (gap, long, chunk) = (ticks(GAP_NS), ticks(LONG_NS), ticks(1e6));
        let ends = Tsc.read_ordered() + ticks(BURST.as_nanos() as f64);
        let mut delays = Vec::new();
        let mut speeds = Vec::new();
        let (mut short, mut short_ns) = (0u64, 0.0);
        let first = counters.all();
        let mut before = first.clone();
        let mut last = Tsc.read_ordered();
        let (mut chunk_from, mut turns, mut away) = (last, 0u64, 0u64);
        while last < ends {
            let now = Tsc.read_ordered();
            let passed = now.saturating_sub(last);
            last = now;
            turns += 1;
            if passed >= gap {
                away += passed;
                let ns = passed as f64 * self.ns_per_tick;
                self.gaps.record(ns);
                if passed >= long {
                    let (delay, after) = self.look_into(run, counters, ns as u64, &before);
                    delays.push(delay);
                    before = after;
                    // Looking took its time, which is no gap.
                    let looked = Tsc.read_ordered();
                    away += looked.saturating_sub(last);
                    last = looked;
                } else {
                    short += 1;
                    short_ns += ns;
                }
            }
            if last.saturating_sub(chunk_from) >= chunk {
                let ran = last.saturating_sub(chunk_from).saturating_sub(away);
                // Of a chunk that was mostly away, little is known.
                if ran >= chunk / 4 {
                    speeds.push(ran as f64 * self.ns_per_tick / turns as f64);
                }
                (chunk_from, turns, away) = (last, 0, 0);
            }
        }
        self.speeds.push(speeds);
        self.explain_short(short, short_ns, &Passed::between(&first, &counters.all()));
        delays
    }

    /// One long gap, and the counts after it.
    fn look_into(
        &mut self,
        run: &Run<'_>,
        counters: &mut Counters,
        ns: u64,
        before: &Counts,
    ) -> (Delay, Counts) {
        let at_ns = run.at_ns();
        let after = counters.all();
        let passed = Passed::between(before, &after);
        let cause = around::of_gap(ns, &passed);
        if cause == Cause::Stolen {
            self.stolen.record(passed.lost_ns.min(ns) as f64);
        }
        (Delay { kind: FigureKind::Gap, at_ns, ns, cpu: counters.cpu(), cause }, after)
    }

    /// Short gaps share what their CPU served.
    fn explain_short(&mut self, gaps: u64, ns: f64, passed: &Passed) {
        let Some(served) = passed.served else { return };
        for (cause, share) in around::of_short_gaps(gaps, served) {
            let total_ns = (ns * share as f64 / gaps.max(1) as f64) as u64;
            match self.short.iter_mut().find(|known| known.cause == cause) {
                Some(known) => {
                    known.gaps += share;
                    known.total_ns += total_ns;
                }
                None => self.short.push(ShortGaps { cause, gaps: share, total_ns }),
            }
        }
    }
}
