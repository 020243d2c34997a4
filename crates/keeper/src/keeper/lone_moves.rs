//! What one server has moved the clock by, alone.
//!
//! Each of its corrections is small, and nothing but itself says that it is right: a
//! server that lies by a second again and again would walk the clock any distance. So
//! what steps and slews have moved by its word is added up. An oscillator is off by
//! 500 ppm at the most, and so much of it is forgotten as time passes, 1.8 s an hour; all
//! of it once something else shows that the clock is right.

use super::polled::SECOND_NS;
use crate::source::SourceKind;

/// What one server may move the clock by at once, and beyond an oscillator's error.
pub(super) const LONE_SERVER_NS: u64 = SECOND_NS;

/// How far off an oscillator may be, as far as the kernel steers (MAXFREQ,
/// include/linux/timex.h).
const OSCILLATOR_PPM: u64 = 500;

/// What an oscillator takes to be off by a nanosecond, ns: 2000.
const NS_PER_NS: u64 = 1_000_000 / OSCILLATOR_PPM;

/// Whether that many sources of this kind that agree are one server.
pub(super) fn is_lone_server(kind: SourceKind, agreeing: usize) -> bool {
    kind == SourceKind::Ntp && agreeing < 2
}

/// The sum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoneMoves {
    sum_ns: u64,
    at_ns: u64,
    /// What of the last slew is in it.
    slew_ns: u64,
}

impl LoneMoves {
    /// What is not forgotten: of 1 s, 0.9 s after 200 s.
    pub(super) fn sum_ns(&self, now_ns: u64) -> u64 {
        self.sum_ns.saturating_sub(now_ns.saturating_sub(self.at_ns) / NS_PER_NS)
    }

    pub(super) fn add(&mut self, by_ns: u64, now_ns: u64) {
        (self.sum_ns, self.at_ns) = (self.sum_ns(now_ns).saturating_add(by_ns), now_ns);
    }

    /// A step or slew is made, `slew_ns` of a slew to be counted; of the slew before it
    /// `left_ns` was not made, as another takes its place, or a step ends it.
    pub(super) fn begin(&mut self, slew_ns: u64, left_ns: u64) {
        let counted_ns = std::mem::replace(&mut self.slew_ns, slew_ns);
        self.sum_ns = self.sum_ns.saturating_sub(left_ns.min(counted_ns));
    }

    /// Whether it may move the clock by this now.
    ///
    /// # Errors
    /// Not before so many ns.
    pub(super) fn check(&self, by_ns: u64, now_ns: u64) -> Result<(), u64> {
        let beyond_ns = self.sum_ns(now_ns).saturating_add(by_ns).saturating_sub(LONE_SERVER_NS);
        if beyond_ns == 0 { Ok(()) } else { Err(beyond_ns.saturating_mul(NS_PER_NS)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_is_forgotten_by_500_ppm() {
        let mut alone = LoneMoves::default();
        assert_eq!(alone.check(LONE_SERVER_NS, 0), Ok(()));
        alone.add(LONE_SERVER_NS, 5 * SECOND_NS);
        assert_eq!(alone.check(1, 5 * SECOND_NS), Err(2000));
        assert_eq!(alone.sum_ns(205 * SECOND_NS), 900_000_000);
        assert_eq!(alone.check(100_000_000, 205 * SECOND_NS), Ok(()));
        assert_eq!(alone.check(100_000_001, 205 * SECOND_NS), Err(2000));
        assert_eq!(alone.sum_ns(u64::MAX), 0);
    }
}
