//! What a lock does under contention: all vCPUs take it, hold it and free it for a
//! while, and count.

use core::sync::atomic::{AtomicU64, Ordering};

use pvclock::counter::Counter;

use crate::hardware::Hardware;
use crate::layout::{DOORBELL, DOORBELL_HALT, KICK_CPU, SCHED_YIELD};
use crate::lock::{Contended, Waiter, Waiting};
use crate::protocol::Words;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contest {
    /// How to wait.
    pub way: Waiting,
    /// Spins before a waiter yields or halts.
    pub spins: u32,
    /// How long each holds it, TSC cycles.
    pub hold: u64,
    /// How long each stays away from it then, TSC cycles.
    pub rest: u64,
    /// For how long, TSC cycles.
    pub length: u64,
    /// vCPUs that take part.
    pub participants: u64,
}

/// What one vCPU counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentionCount {
    /// How often it took the lock.
    pub takes: u64,
    /// How often another vCPU had it before.
    pub handovers: u64,
    /// How often it halted, or yielded.
    pub halts: u64,
    /// How often it kicked another.
    pub kicks: u64,
    /// PAUSE loops that it waited.
    pub spins: u64,
    /// From its first take to its last free, TSC cycles.
    pub cycles: u64,
}

impl ContentionCount {
    /// As a reply's words.
    pub const fn encode(&self) -> Words {
        [self.takes, self.handovers, self.halts, self.kicks, self.spins, self.cycles]
    }

    /// From a reply's words.
    pub const fn decode(words: &Words) -> Self {
        let [takes, handovers, halts, kicks, spins, cycles] = *words;
        Self { takes, handovers, halts, kicks, spins, cycles }
    }
}

/// Buckets of a span, eight to each power of two: within 7 % of its middle.
pub const BUCKETS: usize = 8 * 62;

/// The bucket of a span of cycles.
pub const fn bucket(cycles: u64) -> usize {
    if cycles < 16 {
        return cycles as usize;
    }
    let power = cycles.ilog2();
    8 * (power as usize - 2) + (cycles >> (power - 3)) as usize % 8
}

/// The middle of a bucket, in cycles.
pub const fn middle(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    let power = bucket / 8 + 2;
    ((8 + bucket as u64 % 8) << (power - 3)) + (1 << (power - 3)) / 2
}

/// A vCPU that waits in the lab's machine: its calls are writes to ports.
struct OnPorts<'a, H> {
    hardware: &'a H,
    counted: ContentionCount,
}

impl<H: Hardware> Waiter for OnPorts<'_, H> {
    #[inline]
    fn pause(&mut self) {
        self.counted.spins += 1;
        self.hardware.pause();
    }

    fn give_way(&mut self, to: usize) {
        self.counted.halts += 1;
        self.hardware.port_write_8(SCHED_YIELD, to as u8);
    }

    fn halt(&mut self) {
        self.counted.halts += 1;
        self.hardware.port_write_8(DOORBELL, DOORBELL_HALT);
    }

    fn kick(&mut self, vcpu: usize) {
        self.counted.kicks += 1;
        self.hardware.port_write_8(KICK_CPU, vcpu as u8);
    }
}

/// Takes, holds and frees the lock on this vCPU until `contest` is over, once all
/// its vCPUs are `ready`; how long each hand-over took is counted in `spans`.
pub fn run(
    hardware: &impl Hardware,
    shared: &Contended,
    ready: &AtomicU64,
    vcpu: usize,
    contest: &Contest,
    spans: &mut [u32; BUCKETS],
) -> ContentionCount {
    ready.fetch_add(1, Ordering::AcqRel);
    while ready.load(Ordering::Acquire) < contest.participants {
        // Those that are still to come may need this CPU.
        hardware.port_write_8(SCHED_YIELD, u8::from(vcpu == 0));
    }
    let now = || hardware.counter().read_ordered();
    let me = vcpu as u64 + 1;
    let mut waiter = OnPorts { hardware, counted: ContentionCount::default() };
    let begun = now();
    let mut freed = begun;
    while freed.wrapping_sub(begun) < contest.length {
        let has_waited = shared.lock.take(vcpu, contest.way, contest.spins, &mut waiter);
        let taken = now();
        waiter.counted.takes += 1;
        if shared.last.load(Ordering::Relaxed) != me {
            shared.last.store(me, Ordering::Relaxed);
            waiter.counted.handovers += 1;
            if has_waited {
                let span = taken.saturating_sub(shared.freed.load(Ordering::Relaxed));
                spans[bucket(span)] += 1;
            }
        }
        freed = spin_for(hardware, taken, contest.hold);
        shared.freed.store(freed, Ordering::Relaxed);
        shared.lock.free(vcpu, contest.way, &mut waiter);
        freed = spin_for(hardware, freed, contest.rest);
    }
    waiter.counted.cycles = freed.wrapping_sub(begun);
    waiter.counted
}

/// Until so many cycles after `from`; the TSC then.
fn spin_for(hardware: &impl Hardware, from: u64, cycles: u64) -> u64 {
    loop {
        let now = hardware.counter().read_ordered();
        if now.wrapping_sub(from) >= cycles {
            return now;
        }
        hardware.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_s_middle_is_within_7_percent_of_what_is_in_it() {
        for power in 0..64 {
            for step in 0..64_u64 {
                let span = (1_u64 << power) + (1_u64 << power) / 64 * step;
                let bucket = bucket(span);
                assert!(bucket < BUCKETS, "{span}");
                let off = middle(bucket).abs_diff(span) as f64 / span as f64;
                assert!(off <= 0.0625, "{span} in the bucket of {}", middle(bucket));
            }
        }
        assert!((1..1 << 12).all(|span| bucket(span - 1) <= bucket(span)));
    }

    #[test]
    fn what_was_counted_comes_back_from_its_words() {
        let counted =
            ContentionCount { takes: 1, handovers: 2, halts: 3, kicks: 4, spins: 5, cycles: 6 };
        assert_eq!(ContentionCount::decode(&counted.encode()), counted);
    }
}
