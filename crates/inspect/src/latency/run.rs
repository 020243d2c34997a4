//! One run: all figures, one after the other.

use std::time::Instant;

use instruments::latency::{FigureKind, Latency};
use linux::clock::LinuxClock;
use linux::cpus;

use super::counters::Stops;
use super::{LatencyPlan, LatencyRun, echo, exits, pairs, pipes, spin, timers};
use crate::steal::Steal;

/// Shares of the duration.
const TIMERS: f64 = 0.30;
const WAKE_UPS: f64 = 0.08;
const INTERRUPTS: f64 = 0.04;
const EXITS: f64 = 0.02;
const GAPS: f64 = 0.25;
const PIPE: f64 = 0.06;
const SWITCHES: f64 = 0.05;
const ECHO: f64 = 0.09;

const OF_TIMERS: &[FigureKind] =
    &[FigureKind::TimerWakeUp, FigureKind::TimerWakeUpAwake, FigureKind::TimerWakeUpInheritedSlack];
const OF_GAPS: &[FigureKind] = &[FigureKind::Gap, FigureKind::Stolen];

/// What is measured together, and its share.
const SHARES: &[(&[FigureKind], f64)] = &[
    (OF_TIMERS, TIMERS),
    (OF_GAPS, GAPS),
    (&[FigureKind::CrossCpuWakeUp], WAKE_UPS),
    (&[FigureKind::Ipi], INTERRUPTS),
    (&[FigureKind::Exit], EXITS),
    (&[FigureKind::PipeOneCpu], PIPE),
    (&[FigureKind::PipeAcrossCpus], PIPE),
    (&[FigureKind::Echo], ECHO),
];

/// The shares of what this plan wants together; all leave some for the sweep.
pub(super) fn wanted_shares(plan: &LatencyPlan) -> f64 {
    if plan.only.is_empty() {
        return 1.0;
    }
    SHARES.iter().filter(|(kinds, _)| plan.wants(kinds)).map(|(_, share)| share).sum()
}

/// Measures in about `plan.duration`; what cannot be measured says why.
/// `progress` is called with a label of what is measured now.
pub fn measure(plan: &LatencyPlan, progress: &dyn Fn(&str)) -> Latency {
    let mut run = LatencyRun {
        plan,
        started: Instant::now(),
        progress,
        cpus: cpus::allowed().unwrap_or_default(),
        found: Latency::default(),
        delays: Vec::new(),
    };
    let (steal, used) = (Steal::begin(), LinuxClock::ProcessCputime.read_ns());
    conditions(&mut run);
    figures(&mut run);
    let used_ns = LinuxClock::ProcessCputime.read_ns().zip(used).map(|(now, then)| now - then);
    run.found.used_cpu_s = used_ns.unwrap_or(0) as f64 / 1e9;
    run.found.over_s = run.started.elapsed().as_secs_f64();
    run.found.stolen = steal.end();
    run.forget_shortest();
    Latency { delays: run.delays, ..run.found }
}

fn conditions(run: &mut LatencyRun<'_>) {
    let conditions = &mut run.found.conditions;
    conditions.is_guest = cpus::has_hypervisor();
    conditions.resolution_ns = LinuxClock::Monotonic.claimed_resolution_ns();
    conditions.clock_read_ns = Some(spin::clock_read_ns());
}

fn figures(run: &mut LatencyRun<'_>) {
    let stops = Stops::new();
    let Some((one, other)) = run.pair() else {
        return run.found.miss("all figures", "the allowed CPUs are not known");
    };
    use FigureKind as Kind;
    let wants = |kinds: &[Kind]| run.plan.wants(kinds);
    let [timers, exit, gaps, one_cpu] =
        [OF_TIMERS, &[Kind::Exit], OF_GAPS, &[Kind::PipeOneCpu]].map(wants);
    let all = run.plan.only.is_empty();
    if timers {
        timers::measure(run, &stops, one, run.part(TIMERS));
    }
    if all {
        timers::sweep(run, &stops, one);
    }
    if exit {
        exits::measure(run, one, run.part(EXITS));
    }
    if gaps {
        spin::gaps(run, &stops, run.part(GAPS));
    }
    if one_cpu {
        pipes::placed(run, Kind::PipeOneCpu, (one, one), run.part(PIPE));
    }
    across(run, &stops, one, other);
    if all {
        pipes::free(run, run.plan.echo, run.part(SWITCHES));
    }
    if run.plan.wants(&[Kind::Echo]) {
        echo::measure(run, &stops, one, run.part(ECHO));
    }
}

/// What takes two CPUs.
fn across(run: &mut LatencyRun<'_>, stops: &Stops, one: u32, other: Option<u32>) {
    let kinds = [FigureKind::CrossCpuWakeUp, FigureKind::Ipi, FigureKind::PipeAcrossCpus];
    for kind in kinds.into_iter().filter(|kind| run.plan.wants(&[*kind])) {
        let Some(other) = other else {
            run.found.miss(kind.name(), "this process may use one CPU only");
            continue;
        };
        run.found.conditions.pair = Some(pairs::relation(one, other));
        match kind {
            FigureKind::CrossCpuWakeUp => {
                pairs::wake_up(run, stops, (one, other), run.part(WAKE_UPS));
            }
            FigureKind::Ipi => pairs::interrupt(run, (one, other), run.part(INTERRUPTS)),
            _ => pipes::placed(run, kind, (one, other), run.part(PIPE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_chosen_takes_the_whole_time() {
        let plan = |only: &[FigureKind]| LatencyPlan {
            duration: Duration::from_secs(10),
            echo: || Command::new("true"),
            peer: None,
            cpus: None,
            only: only.to_vec(),
        };
        use FigureKind::{Exit, Gap, TimerWakeUp, TimerWakeUpAwake};
        for (only, shares) in [
            (&[Gap][..], GAPS),
            (&[Gap, Exit], GAPS + EXITS),
            (&[TimerWakeUp, TimerWakeUpAwake], TIMERS),
        ] {
            assert!((wanted_shares(&plan(only)) - shares).abs() < 1e-9, "{only:?}");
        }
        assert_eq!(wanted_shares(&plan(&[])).to_bits(), 1f64.to_bits());
    }
}
