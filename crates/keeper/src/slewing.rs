//! A slew in progress, and how much of it is left.

/// How fast the kernel slews by ADJ_OFFSET_SINGLESHOT: `MAX_TICKADJ` of 500 µs
/// a second (kernel/time/ntp.c).
pub const SLEW_PPM: u64 = 500;

/// The largest single slew, ns: an hour and six minutes. The rest is slewed
/// after that, by the offset measured then.
pub(crate) const MOST_AT_ONCE_NS: i64 = 2_000_000_000;

/// A slew that the kernel carries out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slewing {
    /// By how much, ns.
    pub by_ns: i64,
    /// Since when, ns of CLOCK_MONOTONIC.
    pub since_ns: u64,
}

impl Slewing {
    /// What is left at `now_ns`.
    pub fn left_ns(&self, now_ns: u64) -> i64 {
        let done = now_ns.saturating_sub(self.since_ns) / (1_000_000 / SLEW_PPM);
        let left = self.by_ns.unsigned_abs().saturating_sub(done);
        i64::try_from(left).unwrap_or(i64::MAX) * self.by_ns.signum()
    }

    /// When the kernel is done, at the latest: it begins with the next second.
    pub(crate) fn ends_ns(&self) -> u64 {
        let takes_ns = self.by_ns.unsigned_abs().saturating_mul(1_000_000 / SLEW_PPM);
        self.since_ns.saturating_add(takes_ns).saturating_add(2_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_millisecond_a_second_and_then_nothing() {
        for sign in [1, -1] {
            let slewing = Slewing { by_ns: sign * 1_000_000, since_ns: 10 };
            assert_eq!(slewing.left_ns(10), sign * 1_000_000);
            assert_eq!(slewing.left_ns(1_000_000_010), sign * 500_000);
            assert_eq!(slewing.left_ns(u64::MAX), 0);
        }
        assert_eq!(Slewing { by_ns: i64::MIN, since_ns: 0 }.left_ns(0), -i64::MAX);
    }
}
