//! Timer wake-ups: absolute sleeps on one CPU.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use linux::scheduling::{set_timer_slack_ns, sleep_until_ns, timer_slack_ns, yield_to_all};

use super::{LatencyRun, now_ns};

/// Time between two wake-ups, ns: cyclictest's default.
const INTERVAL_NS: u64 = 1_000_000;

/// The least slack that can be asked for, ns.
const LEAST: NonZeroU64 = NonZeroU64::MIN;

/// Rounds, in which the three ways take turns.
const ROUNDS: u32 = 5;

/// The three figures of timers, over `length` together.
pub(super) fn measure(run: &mut LatencyRun<'_>, cpu: u32, length: Duration) {
    run.doing("timer wake-ups");
    let slack = timer_slack_ns();
    let Some(_pinned) = run.pinned("timer wake-ups", cpu) else { return };
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
            let woken = set.map_err(|why| format!("timer slack: {why}")).and_then(|()| {
                if kind == FigureKind::TimerWakeUpAwake {
                    awake(|| wake_ups(turn, taken)).map_err(|error| format!("SCHED_IDLE: {error}"))
                } else {
                    wake_ups(turn, taken);
                    Ok(())
                }
            });
            if let Err(why) = woken {
                *samples = Err(why);
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

/// One way's turn.
fn wake_ups(turn: Duration, samples: &mut Distribution) {
    let ends = Instant::now() + turn;
    let mut next = now_ns() + INTERVAL_NS;
    while Instant::now() < ends && sleep_until_ns(next).is_ok() {
        samples.record(now_ns().saturating_sub(next) as f64);
        // What was missed is not made up for.
        next = next.saturating_add(INTERVAL_NS).max(now_ns() + INTERVAL_NS / 2);
    }
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
