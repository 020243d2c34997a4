//! NTP's time format (RFC 5905, section 6).

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: i128 = 2_208_988_800;
const S: i128 = 1_000_000_000;

/// A time, in 2^-32 s since the begin of an era: 1900, 7 February 2036, and so on. 0 is no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Of a time since 1970, rounded down: 0.25 s of 2026-11-18 11:06:40 is 0xeea8_0540_4000_0000.
    pub fn from_unix_ns(ns: i64) -> Self {
        let since_1900 = i128::from(ns) + UNIX_EPOCH_S * S;
        // The number of the era is cut.
        Self(((since_1900 << 32).div_euclid(S)) as u64)
    }

    /// ns since 1970, rounded down, in the era in which it is nearest to `near_ns`.
    pub fn unix_ns(self, near_ns: i128) -> i128 {
        let near = (near_ns << 32).div_euclid(S);
        let in_first_era = i128::from(self.0) - (UNIX_EPOCH_S << 32);
        let eras = (near - in_first_era + (1 << 63)) >> 64;
        ((in_first_era + (eras << 64)) * S) >> 32
    }

    /// From an `earlier` one to this, ns, rounded down; the end of an era may be between them.
    pub fn since_ns(self, earlier: Self) -> u64 {
        let elapsed = self.0.wrapping_sub(earlier.0);
        ((u128::from(elapsed) * S.unsigned_abs()) >> 32) as u64
    }

    /// Whether the field holds no time.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}
