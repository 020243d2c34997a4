//! Timer wake-ups: absolute sleeps on one CPU.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::around::{self, Passed};
use instruments::latency::sweep::{Sweep, gaps_ns};
use instruments::latency::{Delay, FigureKind};
use linux::cpus::pin;
use linux::scheduling::{set_timer_slack_ns, sleep_until_ns, timer_slack_ns, yield_to_all};

use super::counters::{Counters, Stops};
use super::{Run, is_tail, now_ns};

/// Time between two wake-ups, ns: cyclictest's default.
const INTERVAL_NS: u64 = 1_000_000;

/// Rounds, in which the three ways take turns.
const ROUNDS: u32 = 5;

/// Wake-ups after each gap of a sweep: those that let the host's polling adapt,
/// and those that count.
const ADAPTING: u32 = 8;
const COUNTING: u32 = 12;
const PASSES: u32 = 3;

/// The three figures of timers, over `length` together.
pub(super) fn measure(run: &mut Run<'_>, stops: &Stops, cpu: u32, length: Duration) {
    run.doing("timer wake-ups");
    let slack_ns = timer_slack_ns().ok();
    run.found.conditions.inherited_slack_ns = slack_ns;
    let _pinned = pin(cpu);
    let counters = Counters::open(cpu, stops);
    let ways = [
        (FigureKind::TimerWakeUp, 0.5),
        (FigureKind::TimerWakeUpAwake, 0.25),
        (FigureKind::TimerWakeUpInheritedSlack, 0.25),
    ];
    let mut samples = ways.map(|_| Distribution::new());
    for _ in 0..ROUNDS {
        for ((kind, share), samples) in ways.into_iter().zip(&mut samples) {
            let turn = length.mul_f64(share / f64::from(ROUNDS));
            let least = NonZeroU64::MIN;
            let slack = match kind {
                FigureKind::TimerWakeUpInheritedSlack => slack_ns.and_then(NonZeroU64::new),
                _ => Some(least),
            };
            if let Err(error) = set_timer_slack_ns(slack.unwrap_or(least)) {
                run.found.miss(kind.name(), format!("timer slack: {error}"));
            }
            let delays = match kind {
                FigureKind::TimerWakeUpAwake => {
                    awake(cpu, || wake_ups(run, &counters, kind, turn, samples))
                }
                _ => wake_ups(run, &counters, kind, turn, samples),
            };
            run.delayed(delays);
        }
    }
    if let Some(slack) = slack_ns.and_then(NonZeroU64::new) {
        let _ = set_timer_slack_ns(slack);
    }
    for ((kind, _), samples) in ways.iter().zip(&samples) {
        run.found.found(*kind, samples);
    }
}

/// One way's turn; the delays in its tail.
fn wake_ups(
    run: &Run<'_>,
    counters: &Counters,
    kind: FigureKind,
    turn: Duration,
    samples: &mut Distribution,
) -> Vec<Delay> {
    let mut delays = Vec::new();
    let ends = Instant::now() + turn;
    let mut next = now_ns() + INTERVAL_NS;
    let mut before = counters.thread();
    while Instant::now() < ends {
        if sleep_until_ns(next).is_err() {
            break;
        }
        let late = now_ns().saturating_sub(next);
        samples.record(late as f64);
        if is_tail(samples, late) {
            let after = counters.thread();
            let cause = around::of_wake_up(late, &Passed::between(&before, &after));
            delays.push(Delay { kind, at_ns: run.at_ns(), ns: late, cpu: counters.cpu(), cause });
            before = after;
        }
        // What was missed is not made up for.
        next = next.saturating_add(INTERVAL_NS).max(now_ns() + INTERVAL_NS / 2);
    }
    delays
}

/// `work` while a thread that yields to all others keeps `cpu` from idling.
fn awake<T>(cpu: u32, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = pin(cpu);
            // At another priority it would be the delay that it is to prevent.
            let yields = yield_to_all().is_ok();
            while yields && !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Wake-ups after idle gaps from 10 µs to 2 ms, in about a second.
pub(super) fn sweep(run: &mut Run<'_>, stops: &Stops, cpu: u32) {
    run.doing("wake-ups after idle gaps");
    let _pinned = pin(cpu);
    if let Err(error) = set_timer_slack_ns(NonZeroU64::MIN) {
        return run.found.miss("sweep of idle gaps", format!("timer slack: {error}"));
    }
    let counters = Counters::open(cpu, stops);
    let waited = || counters.thread().waited_ns;
    let gaps = gaps_ns();
    let mut late: Vec<Vec<u64>> = vec![Vec::new(); gaps.len()];
    for pass in 0..PASSES {
        for index in 0..gaps.len() {
            // Up and down, so that what changes meanwhile tilts nothing.
            let index = if pass % 2 == 0 { index } else { gaps.len() - 1 - index };
            let mut before = waited();
            for wake_up in 0..ADAPTING + COUNTING {
                let until = now_ns() + gaps[index] as u64;
                let _ = sleep_until_ns(until);
                let ns = now_ns().saturating_sub(until);
                let after = waited();
                // Where it waited for another thread, the CPU was not idle.
                let waited_ns = after.zip(before).map_or(0, |(now, then)| now.saturating_sub(then));
                if wake_up >= ADAPTING && waited_ns.saturating_mul(2) < ns {
                    late[index].push(ns);
                }
                before = after;
            }
        }
    }
    let least = (COUNTING * PASSES / 3) as usize;
    let quartile = |mut late: Vec<u64>| {
        late.sort_unstable();
        late.get(late.len() / 4).map_or(0.0, |ns| *ns as f64)
    };
    if late.iter().all(|late| late.len() >= least) {
        let points = gaps.into_iter().zip(late.into_iter().map(quartile)).collect();
        run.found.sweep = Some(Sweep::of(points));
    } else {
        run.found.miss("sweep of idle gaps", "other threads kept this CPU from idling");
    }
    if let Some(slack) = run.found.conditions.inherited_slack_ns.and_then(NonZeroU64::new) {
        let _ = set_timer_slack_ns(slack);
    }
}
