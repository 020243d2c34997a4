//! Timer wake-ups: absolute sleeps on one CPU.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::around::{self, PassedTime};
use instruments::latency::sweep::{Sweep, gaps_ns};
use instruments::latency::{Delay, FigureKind};
use linux::scheduling::{set_timer_slack_ns, sleep_until_ns, timer_slack_ns, yield_to_all};

use super::counters::{Counters, Stops};
use super::{LatencyRun, is_tail, now_ns};

/// Time between two wake-ups, ns: cyclictest's default.
const INTERVAL_NS: u64 = 1_000_000;

/// The least slack that can be asked for, ns.
const LEAST: NonZeroU64 = NonZeroU64::MIN;

/// Rounds, in which the three ways take turns.
const ROUNDS: u32 = 5;

/// Wake-ups after each gap of a sweep: those that let the host's polling adapt,
/// and those that count.
const ADAPTING: u32 = 8;
const COUNTING: u32 = 12;
const PASSES: u32 = 3;

const SWEEP: &str = "sweep of idle gaps";

/// The three figures of timers, over `length` together.
pub(super) fn measure(run: &mut LatencyRun<'_>, stops: &Stops, cpu: u32, length: Duration) {
    run.doing("timer wake-ups");
    let slack = timer_slack_ns();
    run.found.conditions.inherited_slack_ns = slack.as_ref().ok().copied();
    let Some(_pinned) = run.pinned("timer wake-ups", cpu) else { return };
    let counters = Counters::open(cpu, stops);
    // A real-time thread has none, which 1 ns changes nothing of.
    let inherited = slack.map(|ns| NonZeroU64::new(ns).unwrap_or(LEAST));
    let ways = [
        (FigureKind::TimerWakeUp, 0.5),
        (FigureKind::TimerWakeUpAwake, 0.25),
        (FigureKind::TimerWakeUpInheritedSlack, 0.25),
    ];
    let mut samples = ways.map(|_| Ok(Distribution::new()));
    for _ in 0..ROUNDS {
        for ((kind, share), samples) in ways.into_iter().zip(&mut samples) {
            let Ok(taken) = samples else { continue };
            let turn = length.mul_f64(share / f64::from(ROUNDS));
            let slack = match (kind, &inherited) {
                (FigureKind::TimerWakeUpInheritedSlack, Ok(inherited)) => Ok(*inherited),
                (FigureKind::TimerWakeUpInheritedSlack, Err(error)) => Err(error.to_string()),
                _ => Ok(LEAST),
            };
            let set = slack
                .and_then(|slack| set_timer_slack_ns(slack).map_err(|error| error.to_string()));
            let delays = set.map_err(|why| format!("timer slack: {why}")).and_then(|()| {
                if kind == FigureKind::TimerWakeUpAwake {
                    awake(|| wake_ups(run, &counters, kind, turn, taken))
                        .map_err(|error| format!("SCHED_IDLE: {error}"))
                } else {
                    Ok(wake_ups(run, &counters, kind, turn, taken))
                }
            });
            match delays {
                Ok(delays) => run.delayed(delays),
                Err(why) => *samples = Err(why),
            }
        }
    }
    if let Ok(slack) = inherited {
        let _ = set_timer_slack_ns(slack);
    }
    for ((kind, _), samples) in ways.into_iter().zip(samples) {
        match samples {
            Ok(samples) => run.found.add_figure(kind, &samples),
            Err(why) => run.found.miss(kind.name(), why),
        }
    }
}

/// One way's turn; the delays in its tail.
fn wake_ups(
    run: &LatencyRun<'_>,
    counters: &Counters,
    kind: FigureKind,
    turn: Duration,
    samples: &mut Distribution,
) -> Vec<Delay> {
    let mut delays = Vec::new();
    let ends = Instant::now() + turn;
    let mut next = now_ns() + INTERVAL_NS;
    while Instant::now() < ends {
        let before = counters.thread();
        if sleep_until_ns(next).is_err() {
            break;
        }
        let late = now_ns().saturating_sub(next);
        samples.record(late as f64);
        if is_tail(samples, late) {
            let after = counters.thread();
            let cause = around::of_wake_up(late, &PassedTime::between(&before, &after));
            delays.push(Delay { kind, at_ns: run.at_ns(), ns: late, cpu: counters.cpu(), cause });
        }
        // What was missed is not made up for.
        next = next.saturating_add(INTERVAL_NS).max(now_ns() + INTERVAL_NS / 2);
    }
    delays
}

/// `work` while a thread that yields to all others keeps this thread's CPU from
/// idling: it may run there alone.
fn awake<T>(work: impl FnOnce() -> T) -> std::io::Result<T> {
    let over = AtomicBool::new(false);
    let (says, said) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            // At another priority it would be the delay that it is to prevent.
            let yields = yield_to_all();
            let spins = yields.is_ok();
            let _ = says.send(yields);
            while spins && !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let done = said.recv().unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let done = done.map(|()| work());
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Wake-ups after idle gaps from 10 µs to 2 ms, in about a second.
pub(super) fn sweep(run: &mut LatencyRun<'_>, stops: &Stops, cpu: u32) {
    run.doing("wake-ups after idle gaps");
    let Some(_pinned) = run.pinned(SWEEP, cpu) else { return };
    if let Err(error) = set_timer_slack_ns(LEAST) {
        return run.found.miss(SWEEP, format!("timer slack: {error}"));
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
        run.found.sweep = Some(Sweep::new(points));
    } else {
        run.found.miss(SWEEP, "other threads kept this CPU from idling");
    }
    if let Some(slack) = run.found.conditions.inherited_slack_ns.and_then(NonZeroU64::new) {
        let _ = set_timer_slack_ns(slack);
    }
}
