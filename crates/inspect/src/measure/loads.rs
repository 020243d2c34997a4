//! Work done per second: what a clock source costs besides clock reads.

use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use instruments::measurements::{Measurements, Throughput};
use instruments::primes;

use crate::pipe_pair::{PairError, PipePair};

/// Slices of a run, whose figures are its spread.
const SLICES: u32 = 8;

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub enum MeasuringLoad {
    /// UnixBench's pipe-based context switching, with a process started by
    /// this command, which runs [`echo`](crate::pipe_pair::echo).
    Switches(fn() -> Command),
    /// sysbench's prime counting.
    Primes,
}

impl MeasuringLoad {
    fn name(self) -> String {
        match self {
            Self::Switches(_) => "pipe-based context switching".into(),
            Self::Primes => format!("primes below {}", primes::SYSBENCH_MAX_PRIME),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Switches(_) => "loops/s",
            Self::Primes => "events/s",
        }
    }
}

/// Runs `load` as one copy and as one for each of `cpus` CPUs, one round of
/// `rounds` that together take `length` for each number of copies, and adds
/// the result to `found`.
pub fn round(
    load: MeasuringLoad,
    cpus: u32,
    (rounds, length): (u32, Duration),
    found: &mut Vec<Throughput>,
    measurements: &mut Measurements,
    progress: &dyn Fn(&str),
) {
    let slices = SLICES.div_ceil(rounds);
    let slice = length / (slices * rounds);
    for copies in if cpus > 1 { vec![1, cpus] } else { vec![1] } {
        let plural = if copies == 1 { "copy" } else { "copies" };
        let doing = format!("{}, {copies} {plural}", load.name());
        progress(&doing);
        match run(load, copies, (slices, slice), &|| progress(&doing)) {
            Ok(next) => match found.iter_mut().find(|known| known.is_like(&next)) {
                Some(known) => known.followed_by(&next),
                None => found.push(next),
            },
            Err(why) => measurements.miss(doing, why),
        }
    }
}

/// Work done by one copy, in cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct LoadResult(AtomicU64);

fn run(
    load: MeasuringLoad,
    copies: u32,
    (slices, slice): (u32, Duration),
    tick: &dyn Fn(),
) -> Result<Throughput, String> {
    let done: Vec<LoadResult> = (0..copies).map(|_| LoadResult::default()).collect();
    let over = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let mut marks = Vec::new();
    std::thread::scope(|scope| {
        for done in &done {
            let (over, failure) = (&over, &failure);
            scope.spawn(move || {
                if let Err(error) = work(load, &done.0, over) {
                    *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
                    over.store(true, Ordering::Relaxed);
                }
            });
        }
        // The first mark is set when every copy has started work.
        while done.iter().any(|done| done.0.load(Ordering::Relaxed) == 0)
            && !over.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        for mark in 0..=slices {
            if mark > 0 {
                std::thread::sleep(slice);
            }
            let all: u64 = done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum();
            marks.push((Instant::now(), all));
            tick();
        }
        over.store(true, Ordering::Relaxed);
    });
    match failure.into_inner() {
        Ok(None) => Ok(throughput(load, copies, &marks)),
        Ok(Some(error)) => Err(error.to_string()),
        Err(_) => Err("a thread of the load panicked".into()),
    }
}

fn throughput(load: MeasuringLoad, copies: u32, marks: &[(Instant, u64)]) -> Throughput {
    let rate = |from: &(Instant, u64), to: &(Instant, u64)| {
        (to.1 - from.1) as f64 / to.0.duration_since(from.0).as_secs_f64()
    };
    let (first, last) = (&marks[0], &marks[marks.len() - 1]);
    Throughput {
        load: load.name(),
        unit: load.unit().into(),
        copies,
        per_s: rate(first, last),
        slices: marks.windows(2).map(|two| rate(&two[0], &two[1])).collect(),
        over_s: last.0.duration_since(first.0).as_secs_f64(),
    }
}

/// One copy, until `over` is set. A sleeping thread sets it, as an alarm does
/// in UnixBench: a clock read in each loop would add the cost under comparison
/// to the figure.
fn work(load: MeasuringLoad, done: &AtomicU64, over: &AtomicBool) -> Result<(), PairError> {
    match load {
        MeasuringLoad::Switches(echo) => {
            let mut pair = PipePair::start(echo())?;
            while !over.load(Ordering::Relaxed) {
                done.store(pair.pass()?, Ordering::Relaxed);
            }
        }
        MeasuringLoad::Primes => {
            let mut events = 0;
            while !over.load(Ordering::Relaxed) {
                // sysbench times each event: two reads of CLOCK_MONOTONIC.
                let started = Instant::now();
                black_box(primes::event(black_box(primes::SYSBENCH_MAX_PRIME)));
                black_box(started.elapsed());
                events += 1;
                done.store(events, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_counted_by_one_and_by_two_in_rounds() {
        let (mut found, mut measurements) = (Vec::new(), Measurements::default());
        let rounds = (4, Duration::from_millis(80));
        for _ in 0..4 {
            round(MeasuringLoad::Primes, 2, rounds, &mut found, &mut measurements, &|_| ());
        }
        assert_eq!(measurements, Measurements::default());
        assert_eq!(found.iter().map(|load| load.copies).collect::<Vec<_>>(), [1, 2]);
        for load in found {
            assert_eq!(load.slices.len(), SLICES as usize);
            assert!(load.over_s >= 0.08, "{load:?}");
        }
    }

    #[test]
    fn slices_make_up_the_whole() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let found =
            throughput(MeasuringLoad::Primes, 3, &[(at(0), 10), (at(100), 40), (at(400), 90)]);
        assert!((found.per_s - 200.0).abs() < 1e-6, "{found:?}");
        assert!((found.slices[0] - 300.0).abs() < 1e-6, "{found:?}");
    }
}
