//! A token passed between two CPUs, with a clock read at each pass.
//!
//! The passes order the readings: each was taken after the previous one,
//! whichever CPU took it. So readings that go back show a clock that disagrees
//! between CPUs, and round trips bound the offset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linux::cpus::{PinError, pin};

/// `TOKEN.turn` when the first CPU has given up.
const OVER: u64 = u64::MAX;

/// Polls of the token between two checks of the time limit.
const POLLS: u32 = 1024;

/// Round trips between two checks of it: a clock may take microseconds to read.
const TRIPS: u64 = 64;

/// The token, alone in its cache lines (two: adjacent-line prefetch).
#[repr(align(128))]
#[derive(Default)]
struct TurnToken {
    /// Odd: the second CPU holds it; even: the first does, trip `turn / 2`.
    turn: AtomicU64,
    /// What the second CPU read.
    stamp: AtomicU64,
}

/// Readings of one round trip: on the first CPU, on the second, on the first.
pub type Stamps = [u64; 3];

/// Passes a token between `first` and `second`, at most `trips` times and for
/// at most `limit`, reading `clock` at each pass. Returns the trips completed in
/// time, perhaps none.
///
/// # Errors
/// [`PinError`] when this process may not use a CPU.
pub fn round_trips(
    first: u32,
    second: u32,
    trips: u32,
    limit: Duration,
    clock: impl Fn() -> u64 + Sync,
) -> Result<Vec<Stamps>, PinError> {
    let token = TurnToken::default();
    std::thread::scope(|scope| {
        let partner = scope.spawn(|| turn_around(&token, second, &clock));
        let stamps = pin(first).map(|_pinned| pass(&token, trips, limit, &clock));
        token.turn.store(OVER, Ordering::Release);
        match partner.join() {
            Ok(turned) => turned.and(stamps),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The first CPU's side.
fn pass(token: &TurnToken, trips: u32, limit: Duration, clock: impl Fn() -> u64) -> Vec<Stamps> {
    let deadline = Instant::now() + limit;
    let mut stamps = Vec::with_capacity(trips as usize);
    for trip in 0..u64::from(trips) {
        if trip % TRIPS == TRIPS - 1 && Instant::now() >= deadline {
            break;
        }
        let sent = clock();
        token.turn.store(2 * trip + 1, Ordering::Release);
        if !is_back(token, 2 * trip + 2, deadline) {
            break;
        }
        let back = clock();
        stamps.push([sent, token.stamp.load(Ordering::Relaxed), back]);
    }
    stamps
}

/// Waits for the token to be `turn`; false when time is up first.
fn is_back(token: &TurnToken, turn: u64, deadline: Instant) -> bool {
    loop {
        for _ in 0..POLLS {
            if token.turn.load(Ordering::Acquire) == turn {
                return true;
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

/// The second CPU's side, until the first gives up.
fn turn_around(token: &TurnToken, cpu: u32, clock: impl Fn() -> u64) -> Result<(), PinError> {
    let _pinned = pin(cpu)?;
    loop {
        match token.turn.load(Ordering::Acquire) {
            OVER => return Ok(()),
            turn if turn % 2 == 1 => {
                token.stamp.store(clock(), Ordering::Relaxed);
                // The first CPU may have given up meanwhile: then OVER stays.
                let _ = token.turn.compare_exchange(
                    turn,
                    turn + 1,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
            }
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_shared_counter_is_read_in_order() {
        let cpus = linux::cpus::allowed().unwrap();
        let &[first, second, ..] = &cpus[..] else {
            return crate::skipped("one CPU");
        };
        let counter = AtomicU64::new(0);
        let read = || counter.fetch_add(1, Ordering::Relaxed);
        let stamps = round_trips(first, second, 50, LONG, read).unwrap();
        let expected: Vec<Stamps> =
            (0..50).map(|trip| [3 * trip, 3 * trip + 1, 3 * trip + 2]).collect();
        assert_eq!(stamps, expected);
    }

    #[test]
    fn a_missing_cpu_ends_the_trip() {
        let here = linux::cpus::allowed().unwrap()[0];
        for (first, second) in [(here, 100_000), (100_000, here)] {
            let refused = round_trips(first, second, 5, Duration::from_millis(1), || 0);
            assert_eq!(refused.unwrap_err(), PinError::Beyond { cpu: 100_000 });
        }
    }

    #[test]
    fn no_time_is_no_hang() {
        let cpus = linux::cpus::allowed().unwrap();
        let (first, second) = (cpus[0], cpus[cpus.len() - 1]);
        let stamps = round_trips(first, second, 1 << 16, Duration::ZERO, || 0).unwrap();
        assert!(stamps.len() < 1 << 16);
    }

    #[test]
    fn trips_that_all_end_in_time_end_with_the_time_too() {
        let cpus = linux::cpus::allowed().unwrap();
        let &[first, second, ..] = &cpus[..] else {
            return crate::skipped("one CPU");
        };
        let slow = || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_micros(20) {}
            0
        };
        // All of them would take a minute and more.
        let limit = Duration::from_millis(5);
        assert!(round_trips(first, second, 1 << 20, limit, slow).unwrap().len() < 1 << 20);
    }
}
