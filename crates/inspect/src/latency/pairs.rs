//! What one CPU asks of another: a wake-up, and an interrupt.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use linux::cpus::pin;
use linux::membarrier::Membarrier;
use linux::scheduling::sleep_until_ns;
use rustix::event::{EventfdFlags, eventfd};

use super::{LatencyRun, now_ns};

/// Time between two wake-ups, ns: the sleeper is asleep, and its CPU idle.
const INTERVAL_NS: u64 = 500_000;

/// Writes on CPU `from`, and reads on CPU `to`.
pub(super) fn wake_up(run: &mut LatencyRun<'_>, (from, to): (u32, u32), length: Duration) {
    const KIND: FigureKind = FigureKind::CrossCpuWakeUp;
    run.doing(KIND.name());
    let bell = match eventfd(0, EventfdFlags::empty()) {
        Ok(bell) => bell,
        Err(error) => return run.found.miss(KIND.name(), format!("eventfd: {error}")),
    };
    // When the ring was that the sleeper has not answered yet; 0 for none.
    let (rung, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut samples = Distribution::new();
    // A full counter, or a closed descriptor, is not to be had here.
    let ring = || rustix::io::write(&bell, &1u64.to_ne_bytes());
    let Some(there) = run.pinned(KIND.name(), to) else { return };
    let here = std::thread::scope(|scope| {
        // It starts where this thread may run, and stays there.
        let listens = scope.spawn(|| {
            loop {
                if rustix::io::read(&bell, &mut [0; 8]).is_err() {
                    return;
                }
                let woke = now_ns();
                let at = rung.load(Ordering::Acquire);
                if at != 0 {
                    samples.record(woke.saturating_sub(at) as f64);
                    rung.store(0, Ordering::Release);
                }
                if over.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        drop(there);
        let here = pin(from);
        let ends = Instant::now() + length;
        while here.is_ok() && Instant::now() < ends {
            let _ = sleep_until_ns(now_ns() + INTERVAL_NS);
            // An earlier one may still wait for its answer: its delay is the figure.
            if rung.load(Ordering::Acquire) == 0 {
                rung.store(now_ns(), Ordering::Release);
                let _ = ring();
            }
        }
        over.store(true, Ordering::Release);
        let _ = ring();
        let _ = listens.join();
        here.map(drop)
    });
    match here {
        Ok(()) => run.found.add_figure(KIND, &samples),
        Err(error) => run.found.miss(KIND.name(), error.to_string()),
    }
}

/// Interrupts sent from CPU `from` while a thread spins on CPU `to`.
pub(super) fn interrupt(run: &mut LatencyRun<'_>, (from, to): (u32, u32), length: Duration) {
    const KIND: FigureKind = FigureKind::Ipi;
    run.doing(KIND.name());
    let barrier = match Membarrier::register() {
        Ok(barrier) => barrier,
        Err(error) => return run.found.miss(KIND.name(), format!("membarrier: {error}")),
    };
    let (turns, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut samples = Distribution::new();
    let Some(there) = run.pinned(KIND.name(), to) else { return };
    let here = std::thread::scope(|scope| {
        // It starts where this thread may run, and stays there.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        drop(there);
        let here = pin(from);
        let ends = Instant::now() + length;
        while here.is_ok() && Instant::now() < ends {
            // One that does not run now gets no interrupt.
            let seen = turns.load(Ordering::Relaxed);
            while turns.load(Ordering::Relaxed) == seen && Instant::now() < ends {
                std::hint::spin_loop();
            }
            let sent = now_ns();
            barrier.interrupt_all();
            samples.record(now_ns().saturating_sub(sent) as f64);
        }
        over.store(true, Ordering::Relaxed);
        here.map(drop)
    });
    match here {
        Ok(()) => run.found.add_figure(KIND, &samples),
        Err(error) => run.found.miss(KIND.name(), error.to_string()),
    }
}
