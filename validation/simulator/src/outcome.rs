//! What became of a fleet: sums that come out the same in any order of guests.

use crate::checks::Violation;
use crate::fault::FaultKind;

/// From here on a clock is off, ns: 1 ms, 100 ms, 1 s.
pub const OFF_NS: [i64; 3] = [1_000_000, 100_000_000, 1_000_000_000];

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Times at which the discipline looked at its servers.
    pub polls: u64,
    /// Requests to servers.
    pub requests: u64,
    /// Samples that the observer took.
    pub samples: u64,
    /// Things that happened.
    pub faults: u64,
    /// Steps of clocks.
    pub steps: u64,
    /// Slews of clocks.
    pub slews: u64,
    /// Offsets that the keeper refused to correct.
    pub refusals: u64,
    /// Rates that the keeper told to be beyond an oscillator's.
    pub wrong_rates: u64,
}

impl Counts {
    /// All of it.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.polls + self.requests + self.samples + self.faults + self.steps + self.slews
    }

    fn add(&mut self, other: &Self) {
        self.polls += other.polls;
        self.requests += other.requests;
        self.samples += other.samples;
        self.faults += other.faults;
        self.steps += other.steps;
        self.slews += other.slews;
        self.refusals += other.refusals;
        self.wrong_rates += other.wrong_rates;
    }
}

/// What became of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimulationOutcome {
    /// Its number.
    pub guest: u64,
    /// The largest error, ns: ahead is positive.
    pub worst_ns: i64,
    /// When, ns since the start.
    pub worst_at_ns: i64,
    /// What had happened last.
    pub worst_after: Option<FaultKind>,
    /// The error at the end, ns.
    pub last_ns: i64,
    /// How long it was off by more than each of [`OFF_NS`], ns.
    pub off_for_ns: [i64; 3],
    /// How often it was right again after a fault that put it wrong, and how often not at the
    /// end, or at the next fault.
    pub recovered: u64,
    /// See `recovered`.
    pub never_right: u64,
    /// The longest that it took to be right after a fault, ns.
    pub slowest_ns: i64,
    /// What it was doing.
    pub counts: Counts,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
}

/// What became of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// The guests, in the order of their numbers.
    pub guests: Vec<SimulationOutcome>,
    /// What was done.
    pub counts: Counts,
}

impl Fleet {
    pub(crate) fn push(&mut self, outcome: SimulationOutcome) {
        self.counts.add(&outcome.counts);
        self.guests.push(outcome);
    }

    /// Adds guests that were simulated elsewhere.
    pub fn merge(&mut self, other: Self) {
        other.guests.into_iter().for_each(|outcome| self.push(outcome));
        self.guests.sort_by_key(|outcome| outcome.guest);
    }

    /// How many guests were off at any time by more than each of [`OFF_NS`].
    #[must_use]
    pub fn ever_off(&self) -> [u64; 3] {
        OFF_NS
            .map(|off| self.guests.iter().filter(|guest| guest.worst_ns.abs() > off).count() as u64)
    }

    /// The guests that broke a promise.
    pub fn broken(&self) -> impl Iterator<Item = &SimulationOutcome> {
        self.guests.iter().filter(|guest| guest.violation.is_some())
    }

    /// A figure of all that a run has shown: equal where runs were.
    #[must_use]
    pub fn digest(&self) -> u64 {
        // FNV-1a, 64 bits.
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |word: u64| {
            for byte in word.to_le_bytes() {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for one in &self.guests {
            let signed = [one.worst_ns, one.worst_at_ns, one.last_ns, one.slowest_ns];
            signed.iter().chain(&one.off_for_ns).for_each(|word| add(word.cast_unsigned()));
            [one.guest, one.recovered, one.never_right].into_iter().for_each(&mut add);
            add(one.counts.events());
            add(u64::from(one.violation.is_some()));
        }
        sum
    }
}
