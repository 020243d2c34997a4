//! Causes that no single delay shows: one figure against another, or against
//! what such a thing costs elsewhere.

use super::cause::LatenessCause;
use super::{FigureKind, Latency};

/// A cause that a comparison proves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proven {
    /// The cause.
    pub cause: LatenessCause,
    /// With it, ns.
    pub with_ns: f64,
    /// Without it, ns: measured, or what it is elsewhere.
    pub without_ns: f64,
}

/// An exit that KVM serves by itself takes 0.5 to 2.5 µs, with its mitigations;
/// in a nested machine tens.
const DEAR_EXIT_NS: f64 = 5_000.0;
/// A vDSO read takes 20 to 80 ns; a system call or an exit more.
const SLOW_READ_NS: f64 = 250.0;
/// Slack below this is nobody's trouble.
const SLACK_NS: f64 = 20_000.0;
/// A timer fires late by a part of its slack at least, and hardly by more than all of it.
const SLACK_USED: f64 = 0.3;
const SLACK_EXCEEDED: f64 = 2.0;
/// Leaving idle costs a processor 1 to 3 µs: from here on it is named, ns.
pub const IDLE_EXIT_NS: f64 = 5_000.0;
/// A wake-up from idle that is named is this many times as late as one of a CPU kept awake.
pub const IDLE_EXIT_TIMES: f64 = 1.3;
/// Resolution of timers that fire at ticks (1 ms and more).
const COARSE_NS: u64 = 100_000;

/// The causes that comparisons prove.
pub fn proven(found: &Latency) -> Vec<Proven> {
    let p50 = |kind| found.figure(kind).map(|figure| figure.ns.p50);
    let conditions = &found.conditions;
    let is_guest = conditions.is_guest == Some(true);
    let mut proven = Vec::new();
    let mut add = |cause, with_ns, without_ns| {
        proven.push(Proven { cause, with_ns, without_ns });
    };
    if let (Some(with), Some(without)) =
        (p50(FigureKind::TimerWakeUpInheritedSlack), p50(FigureKind::TimerWakeUp))
        && let Some(slack) = conditions.inherited_slack_ns
        && with - without >= SLACK_NS.max(slack as f64 * SLACK_USED)
        && with - without <= slack as f64 * SLACK_EXCEEDED
    {
        add(LatenessCause::TimerSlack, with, without);
    }
    if let (Some(with), Some(without)) =
        (p50(FigureKind::TimerWakeUp), p50(FigureKind::TimerWakeUpAwake))
        && with - without >= IDLE_EXIT_NS
        && with >= without * IDLE_EXIT_TIMES
    {
        add(LatenessCause::IdleExit, with, without);
    }
    if let (Some(with), Some(without)) =
        (p50(FigureKind::PipeAcrossCpus), p50(FigureKind::PipeOneCpu))
        && with >= without * 2.0
    {
        add(LatenessCause::Placement, with, without);
    }
    if let (Some(resolution), Some(with)) = (conditions.resolution_ns, p50(FigureKind::TimerWakeUp))
        && resolution >= COARSE_NS
    {
        add(LatenessCause::CoarseTimers, with.max(resolution as f64 / 2.0), IDLE_EXIT_NS);
    }
    if let Some(with) = p50(FigureKind::Exit).filter(|ns| is_guest && *ns > DEAR_EXIT_NS) {
        add(LatenessCause::DearExits, with, DEAR_EXIT_NS);
    }
    if let Some(with) = conditions.clock_read_ns.filter(|ns| *ns > SLOW_READ_NS) {
        add(LatenessCause::SlowClock, with, SLOW_READ_NS);
    }
    if let Some(limit) = found.sweep.as_ref().and_then(|sweep| sweep.limit)
        && conditions.is_guest != Some(false)
    {
        add(LatenessCause::HaltPolling, limit.slow_ns, limit.quick_ns);
    }
    if let Some((speed, cause)) = conditions.speed.and_then(|speed| Some((speed, speed.cause()?))) {
        add(cause, speed.slow_ns, speed.quick_ns);
    }
    proven
}

#[cfg(test)]
mod tests {
    use super::super::sweep::{Limit, Sweep};
    use super::super::{Figure, Landmarks};
    use super::*;

    fn landmarks(min: f64, p50: f64, p99: f64) -> Landmarks {
        Landmarks { min, p50, p90: p50, p99, p99_9: p99, max: p99, mean: p50, samples: 1000 }
    }

    fn found(figures: &[(FigureKind, f64)]) -> Latency {
        let figure =
            |&(kind, p50)| Figure { kind, ns: landmarks(p50, p50, p50), histogram: Vec::new() };
        Latency { figures: figures.iter().map(figure).collect(), ..Latency::default() }
    }

    fn causes(found: &Latency) -> Vec<LatenessCause> {
        proven(found).into_iter().map(|proven| proven.cause).collect()
    }

    #[test]
    fn slack_counts_only_where_it_delays() {
        use FigureKind::{TimerWakeUp, TimerWakeUpInheritedSlack};
        let with = |slack, inherited| {
            let mut found = found(&[(TimerWakeUp, 8e3), (TimerWakeUpInheritedSlack, inherited)]);
            found.conditions.inherited_slack_ns = Some(slack);
            causes(&found)
        };
        assert_eq!(with(50_000, 58e3), [LatenessCause::TimerSlack]);
        assert_eq!(with(1, 9e3), []);
        // Two milliseconds of slack, and 30 µs later: another cause.
        assert_eq!(with(2_000_000, 38e3), []);
        // Seen where timers fire at ticks: 50 µs of slack, and 3 ms later.
        assert_eq!(with(50_000, 3e6), []);
    }

    #[test]
    fn leaving_idle_counts_from_its_limit_on() {
        use FigureKind::{TimerWakeUp, TimerWakeUpAwake};
        let with =
            |asleep, awake| causes(&found(&[(TimerWakeUp, asleep), (TimerWakeUpAwake, awake)]));
        assert_eq!(with(13e3, 8e3), [LatenessCause::IdleExit], "5 µs");
        assert_eq!(with(12.9e3, 8e3), [], "less than 5 µs");
        assert_eq!(with(26e3, 20e3), [LatenessCause::IdleExit], "30 %");
        assert_eq!(with(25.9e3, 20e3), [], "6 µs, but less than 30 %");
        assert_eq!(with(8e3, 13e3), [], "quicker from idle");
        assert_eq!(causes(&found(&[(TimerWakeUp, 13e3)])), [], "no comparison");
    }

    #[test]
    fn each_comparison_proves_its_cause() {
        use FigureKind::{Exit, PipeAcrossCpus, PipeOneCpu, TimerWakeUp, TimerWakeUpAwake};
        let idle = found(&[(TimerWakeUp, 30e3), (TimerWakeUpAwake, 6e3)]);
        assert_eq!(causes(&idle), [LatenessCause::IdleExit]);
        let apart = found(&[(PipeOneCpu, 2.3e3), (PipeAcrossCpus, 16.3e3)]);
        assert_eq!(causes(&apart), [LatenessCause::Placement]);
        let mut nested = found(&[(Exit, 24e3)]);
        assert_eq!(causes(&nested), []);
        nested.conditions.is_guest = Some(true);
        assert_eq!(causes(&nested), [LatenessCause::DearExits]);
        let mut slow = found(&[(TimerWakeUp, 1e6)]);
        slow.conditions.clock_read_ns = Some(1_500.0);
        slow.conditions.resolution_ns = Some(10_000_000);
        assert_eq!(causes(&slow), [LatenessCause::CoarseTimers, LatenessCause::SlowClock]);
        let mut polled = found(&[]);
        let limit = Some(Limit { ns: 200e3, quick_ns: 4e3, slow_ns: 11e3 });
        polled.sweep = Some(Sweep { late_ns: Vec::new(), limit });
        polled.conditions.is_guest = Some(false);
        assert_eq!(causes(&polled), []);
        polled.conditions.is_guest = Some(true);
        assert_eq!(causes(&polled), [LatenessCause::HaltPolling]);
    }
}
