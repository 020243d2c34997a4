//! The host's clocks, read together.

use platform::clock::Clock;
use provider::{Reading, UnixTime};
use pvclock::counter::{Counter, Tsc};
use pvclock::{Nanos, Ticks};

/// Tries of which the shortest counts: an interruption seldom hits them all.
const TRIES: u32 = 5;

/// A reading, and how many cycles it took: none of its clocks is further from
/// its TSC than half of them.
pub fn read_with_width() -> (Reading, u64) {
    let mut best = once();
    for _ in 1..TRIES {
        let next = once();
        if next.1 < best.1 {
            best = next;
        }
    }
    best
}

/// A reading.
pub fn read() -> Reading {
    read_with_width().0
}

fn once() -> (Reading, u64) {
    let before = Tsc.read_ordered();
    let boot = Clock::Boottime.read_ns();
    let between = Tsc.read_ordered();
    let real = Clock::Realtime.read_ns();
    let width = between.wrapping_sub(before);
    let reading = Reading {
        tsc: Ticks(before.wrapping_add(width / 2)),
        // Linux has both since 2.6.39.
        boot: Nanos(boot.unwrap_or(0)),
        // Read a moment later than the boot clock, some 30 ns: the wall clock
        // is good for milliseconds.
        real: UnixTime(Nanos(real.unwrap_or(0))),
    };
    (reading, width)
}
