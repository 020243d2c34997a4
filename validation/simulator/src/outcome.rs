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
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// The longest that it took to be right after a fault, ns.
    pub slowest_ns: i64,
    /// What it was doing.
    pub counts: Counts,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
}

/// Bins of a quarter of an octave, of ns: 2⁶⁴ has 256.
pub const BINS: usize = 256;

/// The bin of a size.
#[must_use]
pub fn bin(size_ns: u64) -> usize {
    let bits = 64 - size_ns.leading_zeros() as usize;
    match bits {
        0..=2 => size_ns as usize,
        _ => (bits - 1) * 4 + (size_ns >> (bits - 3)) as usize % 4,
    }
}

/// The least size of a bin, ns.
#[must_use]
pub fn least_ns(bin: usize) -> u64 {
    match bin {
        0..8 => (bin as u64).min(4),
        8..BINS => (4 + bin as u64 % 4) << (bin / 4 - 2),
        _ => u64::MAX,
    }
}

/// How many of each size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram(pub Box<[u32; BINS]>);

impl Default for Histogram {
    fn default() -> Self {
        Self(Box::new([0; BINS]))
    }
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, size_ns: u64) {
        self.0[bin(size_ns)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(sum, more)| *sum += more);
    }

    /// How many in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The size that this share of them does not reach, ns, as the upper end of
    /// its bin; nothing if there are none.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let found = self.0.iter().position(|count| {
            sum += u64::from(*count);
            sum >= wanted
        })?;
        Some(least_ns(found + 1))
    }
}

/// Times at which all guests' errors are counted.
pub const BANDS: usize = 200;

/// What became of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// The guests, in the order of their numbers.
    pub guests: Vec<SimulationOutcome>,
    /// Errors at each of [`BANDS`] times, evenly spaced.
    pub bands: Vec<Histogram>,
    /// How long it took to be right after each fault that put a clock wrong.
    pub recoveries: Histogram,
    /// Faults after which the clock was not right at the end, or at the next.
    pub never_right: u64,
    /// What was done.
    pub counts: Counts,
}

impl Fleet {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self { bands: vec![Histogram::default(); BANDS], ..Self::default() }
    }

    /// Adds a guest.
    pub fn push(&mut self, outcome: SimulationOutcome) {
        self.counts.add(&outcome.counts);
        self.guests.push(outcome);
    }

    /// Adds guests that were simulated elsewhere.
    pub fn merge(&mut self, other: Self) {
        self.append(other);
        self.guests.sort_by_key(|outcome| outcome.guest);
    }

    /// The same, with the guests in the order in which they come.
    pub fn append(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.guests.extend(other.guests);
        self.bands.iter_mut().zip(&other.bands).for_each(|(sum, more)| sum.merge(more));
        self.recoveries.merge(&other.recoveries);
        self.never_right += other.never_right;
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
            add(one.guest);
            add(one.counts.events());
            add(u64::from(one.violation.is_some()));
        }
        for histogram in self.bands.iter().chain([&self.recoveries]) {
            histogram.0.iter().for_each(|count| add(u64::from(*count)));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_quarters_of_octaves() {
        for size in [0, 1, 3, 4, 5, 7, 8, 9, 10, 1000, 1_000_000, u64::MAX / 2, u64::MAX] {
            let at = bin(size);
            assert!(at < BINS, "{size}");
            assert!(least_ns(at) <= size, "{size} in {at} from {}", least_ns(at));
            assert!(size < least_ns(at + 1) || at + 1 == BINS, "{size} in {at}");
        }
        let mut all = Histogram::default();
        (1..=100).for_each(|size| all.add(size * 1000));
        let median = all.quantile_ns(0.5).unwrap();
        assert!((50_000..62_500).contains(&median), "{median}");
        assert_eq!(Histogram::default().quantile_ns(0.5), None);
    }
}
