//! What a thread that never sleeps sees: gaps, exits, and its own speed.

use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::around::{self, Counts, PassedTime};
use instruments::latency::cause::LatenessCause;
use instruments::latency::conditions::Speed;
use instruments::latency::hidden::HiddenGaps;
use instruments::latency::{Delay, FigureKind, ShortGaps};
use linux::counter::{self, Counter, CpuCounter};

use super::counters::{Counters, Stops};
use super::{LatencyRun, now_ns};
use crate::steal;

/// Time on one CPU before the next.
const BURST: Duration = Duration::from_millis(100);

/// A gap is at least this long, ns: no cache miss, nor any instruction.
const GAP_NS: f64 = 2_000.0;

/// From here on each gap is looked into, ns.
const LONG_NS: f64 = 30_000.0;

/// A look into a gap takes a tenth of a millisecond: one that takes this long was interrupted, ns.
const LOOK_NS: f64 = 2e6;

/// How often a loop's speed, the time and the thread's counts are looked at, ns.
const CHUNK_NS: f64 = 1e6;

/// CPUs looked at, at most.
const CPUS: usize = 16;

/// Gaps on all CPUs in turn.
pub(super) fn gaps(run: &mut LatencyRun<'_>, stops: &Stops, length: Duration) {
    run.doing(FigureKind::Gap.name());
    let Some(ns_per_tick) = ns_per_tick() else {
        let why = "the CPU's counter may not be read here, or does not advance";
        return run.found.miss(FigureKind::Gap.name(), why);
    };
    let mut spinner = Spinner::new(ns_per_tick);
    let ends = Instant::now() + length;
    let cpus: Vec<u32> = match run.plan.cpus {
        Some((one, _)) => vec![one],
        None => run.cpus.iter().copied().take(CPUS).collect(),
    };
    let mut looked = Duration::ZERO;
    let mut hidden = HiddenGaps::default();
    for cpu in cpus.iter().cycle() {
        if Instant::now() >= ends {
            break;
        }
        let Some(_pinned) = run.pinned(FigureKind::Gap.name(), *cpu) else { break };
        let before = steal::cpu_time_of(*cpu);
        let started = Instant::now();
        let delays = spinner.burst(run, &mut Counters::open(*cpu, stops));
        looked += started.elapsed();
        let stolen_ns = before
            .zip(steal::cpu_time_of(*cpu))
            .and_then(|(before, after)| after.stolen_ns_since(before));
        hidden.add_burst(*cpu, &delays, stolen_ns);
        run.delayed(delays);
    }
    hidden.attribute_stolen(&mut run.delays);
    // An isolated CPU has none, and that is what was looked for.
    if spinner.gaps.samples() > 0 {
        run.found.add_figure(FigureKind::Gap, &spinner.gaps);
    } else if !looked.is_zero() {
        run.found.no_gap_over_s = Some(looked.as_secs_f64());
    }
    if spinner.stolen.samples() > 0 {
        run.found.add_figure(FigureKind::Stolen, &spinner.stolen);
    }
    run.found.conditions.speed = Speed::from_bursts(&spinner.speeds);
    run.found.short_gaps = spinner.short;
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
pub(super) fn ns_per_tick() -> Option<f64> {
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

/// The counts after a gap.
struct TimedCounts {
    /// When it began, ns since the start of the run.
    at_ns: u64,
    counts: Counts,
    took_ns: f64,
}

/// A gap that was looked into.
struct LongGap {
    /// When it ended, ns since the start of the run.
    at_ns: u64,
    ns: u64,
    cause: LatenessCause,
    after: Counts,
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

    /// One burst, on the CPU that this thread is pinned to; its long gaps. It ends
    /// by CLOCK_MONOTONIC, or where the counter steps back.
    fn burst(&mut self, run: &LatencyRun<'_>, counters: &mut Counters) -> Vec<Delay> {
        let (ns_per_tick, cpu) = (self.ns_per_tick, counters.cpu());
        let ticks = |ns: f64| (ns / ns_per_tick) as u64;
        let (gap, long, chunk) = (ticks(GAP_NS), ticks(LONG_NS), ticks(CHUNK_NS));
        let mut delays = Vec::new();
        let mut speeds = Vec::new();
        let (mut short, mut short_ns) = (0u64, 0.0);
        let ends = Instant::now() + BURST;
        let first = counters.all();
        let mut before = first.clone();
        let mut last = CpuCounter.read_ordered();
        let (mut chunk_from, mut turns, mut away) = (last, 0u64, 0u64);
        // Of the gaps since `before`, those not looked into.
        let mut others_ns = 0.0;
        loop {
            let now = CpuCounter.read_ordered();
            let Some(passed) = now.checked_sub(last) else { break };
            last = now;
            turns += 1;
            if passed >= gap {
                away += passed;
                let ns = passed as f64 * ns_per_tick;
                if passed >= long {
                    // Looking took its time, which is no gap.
                    let gap = self.long_gap(ns, others_ns, &before, || {
                        let at_ns = run.at_ns();
                        let counts = counters.all();
                        let looked = CpuCounter.read_ordered();
                        let ticks = looked.saturating_sub(last);
                        away += ticks;
                        last = looked;
                        TimedCounts { at_ns, counts, took_ns: ticks as f64 * ns_per_tick }
                    });
                    let LongGap { at_ns, ns, cause, after } = gap;
                    delays.push(Delay { kind: FigureKind::Gap, at_ns, ns, cpu, cause });
                    (before, others_ns) = (after, 0.0);
                } else {
                    self.gaps.record(ns);
                    short += 1;
                    short_ns += ns;
                    others_ns += ns;
                }
            }
            let since = last.saturating_sub(chunk_from);
            if since >= chunk {
                let ran = since.saturating_sub(away);
                // Of a chunk that was mostly away, little is known.
                if ran >= chunk / 4 {
                    speeds.push(ran as f64 * ns_per_tick / turns as f64);
                }
                if Instant::now() >= ends {
                    break;
                }
                // The table of interrupts costs too much: those counts stay older.
                let counts = Counts { served: before.served, ..counters.thread() };
                let looked = CpuCounter.read_ordered();
                // Reading the CPU time is where a quota ends it: a gap like any other.
                if looked.saturating_sub(last) < long {
                    (before, others_ns, last) = (counts, 0.0, looked);
                }
                (chunk_from, turns, away) = (last, 0, 0);
            }
        }
        self.speeds.push(speeds);
        self.explain_short(short, short_ns, &PassedTime::between(&first, &counters.all()));
        delays
    }

    /// Records a gap of `gap_ns`, in addition to others since `before`, and finds its cause.
    ///
    /// A look that was interrupted belongs to the gap: the counts include that time, and the
    /// loop did not run in it either. A gap of 1 ms and a look of 5 ms are one gap of 6 ms.
    fn long_gap(
        &mut self,
        mut gap_ns: f64,
        others_ns: f64,
        before: &Counts,
        mut look: impl FnMut() -> TimedCounts,
    ) -> LongGap {
        let mut found = look();
        if found.took_ns >= LOOK_NS {
            gap_ns += found.took_ns;
            found = look();
        }
        self.gaps.record(gap_ns);
        let passed = PassedTime::between(before, &found.counts);
        let ns = gap_ns as u64;
        let cause = around::of_gap(ns, others_ns as u64, &passed);
        if cause == LatenessCause::Stolen {
            self.stolen.record(passed.lost_ns.min(ns) as f64);
        }
        LongGap { at_ns: found.at_ns, ns, cause, after: found.counts }
    }

    /// Short gaps share what their CPU served.
    fn explain_short(&mut self, gaps: u64, ns: f64, passed: &PassedTime) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// A thread that ran for 10 ms, and was stolen from since.
    fn counts(at_ms: f64) -> Counts {
        Counts {
            at_ns: (at_ms * MS) as u64,
            ran_ns: Some((10.0 * MS) as u64),
            waited_ns: Some(0),
            ..Counts::default()
        }
    }

    fn record(gap_ms: f64, looks: &[(f64, f64)]) -> (Spinner, LongGap) {
        let mut spinner = Spinner::new(1.0);
        let mut looks = looks.iter();
        let gap = spinner.long_gap(gap_ms * MS, 0.0, &counts(10.0), || {
            let (at_ms, took_ms) = looks.next().expect("a look more than planned");
            let at_ns = ((at_ms - took_ms) * MS) as u64;
            TimedCounts { at_ns, counts: counts(*at_ms), took_ns: took_ms * MS }
        });
        (spinner, gap)
    }

    #[test]
    fn a_gap_is_recorded_once_though_its_look_was_interrupted() {
        let (spinner, gap) = record(1.0, &[(16.0, 5.0), (16.0, 0.0)]);
        assert_eq!((gap.ns, gap.cause), (6_000_000, LatenessCause::Stolen));
        for (what, samples) in [("gaps", &spinner.gaps), ("stolen", &spinner.stolen)] {
            assert_eq!(samples.samples(), 1, "{what}");
            let max = samples.spread().unwrap().max;
            assert!((max / (6.0 * MS) - 1.0).abs() < 0.03, "{what}: {max}");
        }
    }

    #[test]
    fn a_quick_look_is_no_part_of_its_gap() {
        let (spinner, gap) = record(1.0, &[(11.1, 0.1)]);
        assert_eq!((gap.ns, gap.cause), (1_000_000, LatenessCause::Stolen));
        assert_eq!((spinner.gaps.samples(), spinner.stolen.samples()), (1, 1));
    }
}
