//! Chance that a seed repeats.

/// A few bits of chance: xorshift64*, seeded.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn within(&mut self, bound: u64) -> i64 {
        self.below(2 * bound + 1).cast_signed() - bound.cast_signed()
    }

    pub(crate) fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }
}
