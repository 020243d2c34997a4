//! What a history is made from.

/// xorshift64* (Vigna, 2016).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // SplitMix64's constants: neighbouring numbers begin unlike.
        let mixed = (seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }

    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// From microseconds to days, either way.
    pub(crate) fn lie_ns(&mut self) -> i64 {
        let size = 1000_i64 << self.below(37);
        let size = size + self.below(size.unsigned_abs()) as i64;
        if self.one_in(2) { size } else { -size }
    }
}
