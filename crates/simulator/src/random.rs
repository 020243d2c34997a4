//! Random figures: one stream for each purpose of each guest, so that another
//! fault, or another server, moves nothing else.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), 8 bytes of
//! state a stream. The logarithm is libm's: the platform's own differ in the last
//! bit, and streams are part of the result.

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
}

impl Purpose {
    const fn number(self) -> u64 {
        let (kind, index) = match self {
            Self::Oscillator(index) => (1, index),
            Self::HostClock(index) => (2, index),
            Self::Boot => (3, 0),
            Self::Network(index) => (4, index),
            Self::Fault(index) => (5, index),
        };
        (kind << 32) | index as u64
    }
}

/// A stream of random figures.
///
/// ```
/// use simulator::random::{Purpose, Stream};
///
/// let drawn = |guest| Stream::new(7, guest, Purpose::Boot).bits();
/// assert_eq!(drawn(1), drawn(1));
/// assert_ne!(drawn(1), drawn(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

/// 2⁶⁴ divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Stream {
    /// The stream of this purpose.
    #[must_use]
    pub const fn new(seed: u64, guest: u64, purpose: Purpose) -> Self {
        let guest = mix(mix(seed.wrapping_add(STEP)) ^ guest.wrapping_mul(STEP));
        Self(mix(guest ^ purpose.number().wrapping_mul(STEP)))
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// From 0 to 1, without 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// From `low` to `high`, evenly.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Exponential, of mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal, of mean 0 and deviation 1: two of them, by Marsaglia's polar
    /// method.
    #[inline]
    pub fn normals(&mut self) -> [f64; 2] {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let scale = (-2.0 * libm::log(square) / square).sqrt();
                return [x * scale, y * scale];
            }
        }
    }

    /// One of them.
    pub fn normal(&mut self) -> f64 {
        self.normals()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_their_distributions() {
        let mut stream = Stream::new(1, 2, Purpose::Boot);
        let count = 200_000;
        let (mut sum, mut square, mut fourth, mut wait) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..count {
            let normal = stream.normal();
            sum += normal;
            square += normal * normal;
            fourth += normal * normal * normal * normal;
            wait += stream.exponential();
        }
        let mean = |sum: f64| sum / f64::from(count);
        assert!(mean(sum).abs() < 0.01, "{}", mean(sum));
        assert!((mean(square) - 1.0).abs() < 0.015, "{}", mean(square));
        assert!((mean(fourth) - 3.0).abs() < 0.1, "{}", mean(fourth));
        assert!((mean(wait) - 1.0).abs() < 0.01, "{}", mean(wait));
    }

    #[test]
    fn streams_of_neighbours_have_nothing_in_common() {
        let purposes = [Purpose::Boot, Purpose::Network(0), Purpose::Network(1), Purpose::Fault(1)];
        let mut first: Vec<u64> = (0..1000_u64)
            .flat_map(|guest| purposes.map(|purpose| Stream::new(9, guest, purpose).bits()))
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 4000);
    }
}
