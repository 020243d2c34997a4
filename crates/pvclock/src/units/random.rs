//! Numbers that repeat with their seed, for simulations and tests.

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
/// 2014): 8 bytes of state, any seed is as good as another. No secret may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// 2^64 divided by the golden ratio.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits of which each depends on all of `bits`.
    #[must_use]
    #[inline]
    pub const fn mix(bits: u64) -> u64 {
        let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        Self::mix(self.0)
    }

    /// From 0 to 1, without 1.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// From 0 to `end`, without `end`; 0 where that is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// From -`bound` to `bound`, which is less than 2^63.
    pub const fn within(&mut self, bound: u64) -> i64 {
        self.below(2 * bound + 1).cast_signed() - bound.cast_signed()
    }

    /// Whether the case happens that happens once in this number.
    pub const fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that other implementations draw of this seed (Rosetta Code, "Pseudo-random
    /// numbers/Splitmix64").
    #[test]
    fn it_is_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ] {
            assert_eq!(random.bits(), expected);
        }
        // 987654321: how many of 100,000 in each fifth, of floor(5 * unit).
        let mut random = SplitMix64::new(987_654_321);
        let mut fifths = [0; 5];
        (0..100_000).for_each(|_| fifths[(random.unit() * 5.0) as usize] += 1);
        assert_eq!(fifths, [20_027, 19_892, 20_073, 19_978, 20_030]);
    }

    #[test]
    fn a_number_is_below_the_end() {
        let mut random = SplitMix64::new(7);
        let mut counts = [0; 3];
        (0..3_000).for_each(|_| counts[random.below(3) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        let mut counts = [0; 3];
        (0..3_000).for_each(|_| counts[(random.within(1) + 1) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        let hits = (0..3_000).filter(|_| random.one_in(3)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
    }
}
