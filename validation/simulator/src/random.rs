//! Random figures: one stream for each purpose of each guest, so that another
//! fault, or another server, moves nothing else.
//!
//! A stream is 8 bytes of state. The logarithm is libm's: the platform's own differ in the last
//! bit, and streams are part of the result.

use pvclock::units::random::SplitMix64;

/// What a stream is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The oscillator of the guest's host of this number.
    Oscillator(u32),
    /// That host's own wall clock.
    HostClock(u32),
    /// The state that the guest begins in.
    Boot,
    /// The way to the server of this number.
    Network(u32),
    /// When the fault of this number of the scenario happens.
    Fault(u32),
    /// How long what comes for the guest waits for its CPU.
    Stolen,
}

impl Purpose {
    const fn number(self) -> u64 {
        let (kind, index) = match self {
            Self::Oscillator(index) => (1, index),
            Self::HostClock(index) => (2, index),
            Self::Boot => (3, 0),
            Self::Network(index) => (4, index),
            Self::Fault(index) => (5, index),
            Self::Stolen => (6, 0),
        };
        (kind << 32) | index as u64
    }
}

/// A stream of random figures.
///
/// ```
/// use simulator::random::{Purpose, RandomStream};
///
/// let drawn = |guest| RandomStream::new(7, guest, Purpose::Boot).bits();
/// assert_eq!(drawn(1), drawn(1));
/// assert_ne!(drawn(1), drawn(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomStream(SplitMix64);

impl RandomStream {
    /// The stream of this purpose.
    #[must_use]
    pub const fn new(seed: u64, guest: u64, purpose: Purpose) -> Self {
        const STEP: u64 = SplitMix64::STEP;
        let seed = SplitMix64::mix(seed.wrapping_add(STEP));
        let guest = SplitMix64::mix(seed ^ guest.wrapping_mul(STEP));
        Self(SplitMix64::new(SplitMix64::mix(guest ^ purpose.number().wrapping_mul(STEP))))
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 to 1, without 1.
    pub const fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// From `low` to `high`, evenly.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Exponential, of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal, of mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_their_distributions() {
        let mut stream = RandomStream::new(1, 2, Purpose::Boot);
        let count = 1_000_000;
        let (mut sum, mut square, mut fourth, mut wait) = (0.0, 0.0, 0.0, 0.0);
        let (mut beyond, mut late) = (0, 0);
        for _ in 0..count {
            let normal = stream.normal();
            beyond += u32::from(normal.abs() > 3.5);
            sum += normal;
            square += normal * normal;
            fourth += normal * normal * normal * normal;
            let one = stream.exponential();
            (wait, late) = (wait + one, late + u32::from(one > 8.0));
        }
        // Beyond 3.5 lie 465 of a million: the tail is drawn as it should.
        assert!((400..530).contains(&beyond), "{beyond}");
        // Beyond 8, 335 of a million.
        assert!((270..400).contains(&late), "{late}");
        let mean = |sum: f64| sum / f64::from(count);
        assert!(mean(sum).abs() < 0.01, "{}", mean(sum));
        assert!((mean(square) - 1.0).abs() < 0.005, "{}", mean(square));
        assert!((mean(fourth) - 3.0).abs() < 0.05, "{}", mean(fourth));
        assert!((mean(wait) - 1.0).abs() < 0.005, "{}", mean(wait));
    }

    #[test]
    fn streams_of_neighbours_have_nothing_in_common() {
        let purposes = [Purpose::Boot, Purpose::Network(0), Purpose::Network(1), Purpose::Fault(1)];
        let mut first: Vec<u64> = (0..1000_u64)
            .flat_map(|guest| purposes.map(|purpose| RandomStream::new(9, guest, purpose).bits()))
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 4000);
    }
}
