//! One run: all figures, one after the other.

use std::time::Instant;

use instruments::latency::{FigureKind, Latency};
use linux::clock::LinuxClock;
use linux::cpus;

use super::{LatencyPlan, LatencyRun, echo, exits, pairs, timers};
use crate::latency;
use crate::latency::CpuTimes;

/// Shares of the duration.
const TIMERS: f64 = 0.50;
const WAKE_UPS: f64 = 0.12;
const INTERRUPTS: f64 = 0.06;
const EXITS: f64 = 0.04;
const PIPE: f64 = 0.08;
const ECHO: f64 = 0.12;

const OF_TIMERS: &[FigureKind] =
    &[FigureKind::TimerWakeUp, FigureKind::TimerWakeUpAwake, FigureKind::TimerWakeUpInheritedSlack];

/// What is measured together, and its share.
const SHARES: &[(&[FigureKind], f64)] = &[
    (OF_TIMERS, TIMERS),
    (&[FigureKind::CrossCpuWakeUp], WAKE_UPS),
    (&[FigureKind::Ipi], INTERRUPTS),
    (&[FigureKind::Exit], EXITS),
    (&[FigureKind::PipeOneCpu], PIPE),
    (&[FigureKind::PipeAcrossCpus], PIPE),
    (&[FigureKind::Echo], ECHO),
];

/// The shares of what this plan wants together.
pub(super) fn wanted_shares(plan: &LatencyPlan) -> f64 {
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
    };
    let (before, used) = (CpuTimes::read(), LinuxClock::ProcessCputime.read_ns());
    figures(&mut run);
    let used_ns = LinuxClock::ProcessCputime.read_ns().zip(used).map(|(now, then)| now - then);
    run.found.used_cpu_s = used_ns.unwrap_or(0) as f64 / 1e9;
    run.found.over_s = run.started.elapsed().as_secs_f64();
    run.found.cpus = CpuTimes::read().shares_since(&before, run.found.over_s);
    run.found
}

fn figures(run: &mut LatencyRun<'_>) {
    let Some((one, other)) = run.pair() else {
        return run.found.miss("all figures", "the allowed CPUs are not known");
    };
    use FigureKind as Kind;
    if run.plan.wants(OF_TIMERS) {
        timers::measure(run, one, run.part(TIMERS));
    }
    if run.plan.wants(&[Kind::Exit]) {
        exits::measure(run, one, run.part(EXITS));
    }
    if run.plan.wants(&[Kind::PipeOneCpu]) {
        latency::measure_pipes(run, Kind::PipeOneCpu, (one, one), run.part(PIPE));
    }
    across(run, one, other);
    if run.plan.wants(&[Kind::Echo]) {
        echo::measure(run, one, run.part(ECHO));
    }
}

/// What takes two CPUs.
fn across(run: &mut LatencyRun<'_>, one: u32, other: Option<u32>) {
    let kinds = [FigureKind::CrossCpuWakeUp, FigureKind::Ipi, FigureKind::PipeAcrossCpus];
    for kind in kinds.into_iter().filter(|kind| run.plan.wants(&[*kind])) {
        let Some(other) = other else {
            run.found.miss(kind.name(), "this process may use one CPU only");
            continue;
        };
        match kind {
            FigureKind::CrossCpuWakeUp => pairs::wake_up(run, (one, other), run.part(WAKE_UPS)),
            FigureKind::Ipi => pairs::interrupt(run, (one, other), run.part(INTERRUPTS)),
            _ => latency::measure_pipes(run, kind, (one, other), run.part(PIPE)),
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
        use FigureKind::{Exit, Ipi, TimerWakeUp, TimerWakeUpAwake};
        for (only, shares) in [
            (&[Ipi][..], INTERRUPTS),
            (&[Ipi, Exit], INTERRUPTS + EXITS),
            (&[TimerWakeUp, TimerWakeUpAwake], TIMERS),
        ] {
            assert!((wanted_shares(&plan(only)) - shares).abs() < 1e-9, "{only:?}");
        }
        assert!((wanted_shares(&plan(&[])) - 1.0).abs() < 1e-9);
    }
}
