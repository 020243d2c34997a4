//! Guests shared out among threads; Ctrl-C ends with what is simulated so far.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linux::wait::{Signals, WaitUntil, Wake};
use simulator::{Fleet, ScenarioCorrector, Simulation};

use crate::error::{CliError, cannot_wait};
use crate::output::progress::TerminalProgress;

/// Guests that a thread takes at a time.
const SHARE: u64 = 16;

/// Between two looks at the progress.
const SHOWN_EACH: Duration = Duration::from_millis(100);

/// What one discipline made of the fleet.
pub(super) struct DisciplineRun {
    pub(super) corrector: ScenarioCorrector,
    pub(super) fleet: Fleet,
    pub(super) took: Duration,
    /// All guests were simulated.
    pub(super) is_whole: bool,
}

/// What the report is of.
pub(super) fn fleets(done: &[DisciplineRun]) -> impl Iterator<Item = (ScenarioCorrector, &Fleet)> {
    done.iter().map(|one| (one.corrector, &one.fleet))
}

/// Each discipline in turn, until a signal comes.
pub(super) fn run_all<'s>(
    disciplines: &[ScenarioCorrector],
    simulation: impl Fn(ScenarioCorrector) -> Simulation<'s>,
    guests: Range<u64>,
    threads: u64,
) -> Result<Vec<DisciplineRun>, CliError> {
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    let mut done: Vec<DisciplineRun> = Vec::new();
    for corrector in disciplines {
        if done.last().is_some_and(|last| !last.is_whole) {
            break;
        }
        done.push(run_discipline(
            *corrector,
            simulation(*corrector),
            guests.clone(),
            threads,
            &wait,
        )?);
    }
    Ok(done)
}

fn run_discipline(
    corrector: ScenarioCorrector,
    simulation: Simulation<'_>,
    guests: Range<u64>,
    threads: u64,
    wait: &WaitUntil,
) -> Result<DisciplineRun, CliError> {
    let begun = Instant::now();
    let count = guests.end - guests.start;
    // A guest is a millisecond of the bar.
    let progress = TerminalProgress::new(Duration::from_millis(count));
    let (next, simulated) = (AtomicU64::new(guests.start), AtomicU64::new(0));
    let (is_stopped, whole) = (AtomicBool::new(false), Mutex::new(Fleet::new()));
    let work = || {
        let mut mine = Fleet::new();
        while !is_stopped.load(Ordering::Relaxed) {
            let from = next.fetch_add(SHARE, Ordering::Relaxed);
            if from >= guests.end {
                break;
            }
            let goes_on = || {
                simulated.fetch_add(1, Ordering::Relaxed);
                !is_stopped.load(Ordering::Relaxed)
            };
            mine.append(simulation.guests(from..(from + SHARE).min(guests.end), goes_on));
        }
        whole.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(mine);
    };
    let watched = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(work)).collect();
        while !running.iter().all(|thread| thread.is_finished()) {
            let rate = simulated.load(Ordering::Relaxed);
            let per_s = rate as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            let doing = format!("{}: {per_s:.0} guests a second", corrector.name());
            progress.show_at(Duration::from_millis(rate), &doing);
            match wait.until(Instant::now() + SHOWN_EACH) {
                Ok(Wake::Deadline) => {}
                Ok(_) => is_stopped.store(true, Ordering::Relaxed),
                Err(error) => {
                    is_stopped.store(true, Ordering::Relaxed);
                    return Err(cannot_wait(error));
                }
            }
        }
        Ok(())
    });
    watched?;
    let fleet = whole.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let is_whole = fleet.guests.len() as u64 == count;
    Ok(DisciplineRun { corrector, fleet, took: begun.elapsed(), is_whole })
}
