//! Each kind of fault under each discipline, many times: what was found, when, and what
//! fired though nothing was wrong.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::faults::{FAULTS, Fault, Since};
use crate::installation::{INSTALLATIONS, Installation};
use crate::rules::RULES;
use crate::run::{Run, SPAN_NS, run};

/// Days that each machine is watched.
pub const DAYS: u64 = SPAN_NS as u64 / 86_400_000_000_000;

/// An alert belongs to a fault that ended so long ago: rules look back an hour, and last.
const AFTER_MS: i64 = 75 * 60_000;

/// A clock off by more is wrong, s: what rules of offsets go by.
const WRONG_S: f64 = 0.05;

/// And by more than this it is to be found.
const FOUND_S: f64 = 0.1;

/// A fault on machines of a kind.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The fault.
    pub fault: &'static Fault,
    /// What they have.
    pub on: &'static Installation,
    /// How often it happened.
    pub runs: u64,
    /// How often it was to be found.
    pub counted: u64,
    /// What it took where it was, s.
    pub took_s: Vec<f64>,
    /// How often it was found by a rule that needs no consumer.
    pub without_consumer: u64,
    /// How often by one that is no mere information.
    pub without_info: u64,
    /// In how many of these each rule fired, and after what sum of times, s.
    pub by_rule: Vec<(u64, f64)>,
    /// How often each fired though nothing was wrong.
    pub false_alarms: Vec<u64>,
    /// Days in which nothing was wrong.
    pub quiet_days: f64,
}

/// All cells, of so many runs each, or as many as there is time for, on so many threads.
pub fn study(runs: u64, threads: usize, until: Option<Instant>) -> Vec<Cell> {
    let cell = |fault: &'static Fault, on| Cell {
        fault,
        on,
        runs: 0,
        counted: 0,
        took_s: Vec::new(),
        without_consumer: 0,
        without_info: 0,
        by_rule: vec![(0, 0.0); RULES.0.len()],
        false_alarms: vec![0; RULES.0.len()],
        quiet_days: 0.0,
    };
    let of_fault = |fault| INSTALLATIONS.iter().map(move |on| Mutex::new(cell(fault, on)));
    let cells = FAULTS.iter().flat_map(of_fault);
    let cells: Vec<Mutex<Cell>> = cells.collect();
    let next = AtomicU64::new(0);
    let all = runs * cells.len() as u64;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= all || until.is_some_and(|until| Instant::now() >= until) {
                        break;
                    }
                    let cell = &cells[(number % cells.len() as u64) as usize];
                    let (fault, on) = {
                        let cell = locked(cell);
                        (cell.fault, cell.on)
                    };
                    let run = run(fault, on, number, &mut ());
                    locked(cell).add(&run);
                }
            });
        }
    });
    cells.iter().map(|cell| locked(cell).clone()).collect()
}

fn locked(cell: &Mutex<Cell>) -> MutexGuard<'_, Cell> {
    cell.lock().unwrap_or_else(|broken| broken.into_inner())
}

impl Cell {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        let wrong = wrong(run);
        let is_quiet = |at_ms: i64| !wrong.iter().any(|(from, to)| (*from..*to).contains(&at_ms));
        for (_, rule) in run.fired.iter().filter(|(at_ms, _)| is_quiet(*at_ms)) {
            self.false_alarms[*rule] += 1;
        }
        let span_ms = SPAN_NS / 1_000_000;
        let wrong_ms: i64 =
            wrong.iter().map(|(from, to)| to.min(&span_ms) - from.min(&span_ms)).sum();
        self.quiet_days += (span_ms - wrong_ms) as f64 / 86_400_000.0;
        let expected = self.fault.expected(self.on);
        let within_ms = expected.within_s * 1000;
        let (begin_ms, end_ms) = run.fault_ms;
        let since_ms = match expected.since {
            Since::Begin => begin_ms,
            Since::End => end_ms,
            Since::Wrong => match first_wrong(run, within_ms) {
                Some(at_ms) => at_ms,
                None => return,
            },
        };
        self.counted += 1;
        let mut found = None;
        let (mut without_consumer, mut without_info) = (false, false);
        for (index, rule) in RULES.0.iter().enumerate() {
            let after =
                |at_ms: i64| (begin_ms..=since_ms + within_ms.max(AFTER_MS)).contains(&at_ms);
            let fired = run.fired.iter().find(|(at_ms, rule)| *rule == index && after(*at_ms));
            let Some((at_ms, _)) = fired else { continue };
            let took_s = (at_ms - since_ms).max(0) as f64 / 1000.0;
            self.by_rule[index].0 += 1;
            self.by_rule[index].1 += took_s;
            if expected.by.contains(&rule.name) && *at_ms <= since_ms + within_ms {
                found = Some(found.map_or(took_s, |first: f64| first.min(took_s)));
                without_consumer |= !rule.text.contains("consumer_here");
                without_info |= !rule.is_info;
            }
        }
        self.took_s.extend(found);
        self.without_consumer += u64::from(without_consumer);
        self.without_info += u64::from(without_info);
    }
}

/// When something was wrong: from the fault's begin until long after its end, and while
/// the clock was off and as long after; in order, apart, ms.
fn wrong(run: &Run) -> Vec<(i64, i64)> {
    let (begin_ms, end_ms) = run.fault_ms;
    let off = run.errors.iter().filter(|(_, error_s)| error_s.abs() > WRONG_S);
    let fault = (begin_ms, end_ms.saturating_add(AFTER_MS));
    let mut spans: Vec<_> = off.map(|(at_ms, _)| (*at_ms, at_ms + AFTER_MS)).collect();
    spans.push(fault);
    spans.sort_unstable();
    let mut apart: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match apart.last_mut() {
            Some((_, last)) if *last >= from => *last = to.max(*last),
            _ => apart.push((from, to)),
        }
    }
    apart
}

/// Since when the clock was wrong for so long at each scrape, if it was.
fn first_wrong(run: &Run, for_ms: i64) -> Option<i64> {
    let mut since_ms = None;
    for (at_ms, error_s) in run.errors.iter().filter(|(at_ms, _)| *at_ms > run.fault_ms.0) {
        if error_s.abs() <= FOUND_S {
            since_ms = None;
        } else if at_ms - *since_ms.get_or_insert(*at_ms) >= for_ms {
            return since_ms;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_is_told_from_what_was_not() {
        let errors = [(0, 0.0), (60, 0.2), (120, 0.2), (180, 0.0), (240, 0.3), (300, 0.2)];
        let errors: Vec<_> = errors.map(|(at_s, error_s)| (at_s * 1000, error_s)).into();
        let run = Run { fault_ms: (50_000, 55_000), errors, ..Run::default() };
        assert_eq!(wrong(&run), [(50_000, 300_000 + AFTER_MS)]);
        assert_eq!(first_wrong(&run, 60_000), Some(60_000));
        assert_eq!(first_wrong(&run, 61_000), None);
        let never = Run { fault_ms: (1_000, i64::MAX), ..Run::default() };
        assert_eq!(wrong(&never), [(1_000, i64::MAX)]);
    }
}
