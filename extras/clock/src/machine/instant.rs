//! A moment, in the style of `std::time::Instant`.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A moment on CLOCK_MONOTONIC's scale.
///
/// ```
/// use std::time::Duration;
/// use clock::Instant;
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_millis(5);
/// assert_eq!(deadline - start, Duration::from_millis(5));
/// assert_eq!(start.duration_since(deadline), Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// What CLOCK_MONOTONIC shows at `ns`.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self { ns }
    }

    /// What CLOCK_MONOTONIC shows at this moment, ns.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.ns
    }

    /// How long after `earlier` it is; zero if it is before.
    #[inline]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// The same, by its explicit name.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// How long after `earlier` it is, unless it is before.
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => None,
        }
    }

    /// The moment `later` than this, if it fits 64 bits of ns: 584 years.
    pub fn checked_add(self, later: Duration) -> Option<Self> {
        let ns = self.ns.checked_add(u64::try_from(later.as_nanos()).ok()?)?;
        Some(Self { ns })
    }

    /// The moment `earlier` than this, if it is not before the machine's
    /// start.
    pub fn checked_sub(self, earlier: Duration) -> Option<Self> {
        let ns = self.ns.checked_sub(u64::try_from(earlier.as_nanos()).ok()?)?;
        Some(Self { ns })
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the result does not fit 64 bits of ns.
    fn add(self, later: Duration) -> Self {
        self.checked_add(later).expect("overflow when adding a duration to an instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, later: Duration) {
        *self = *self + later;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the result is before the machine's start.
    fn sub(self, earlier: Duration) -> Self {
        self.checked_sub(earlier).expect("overflow when subtracting a duration from an instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, earlier: Duration) {
        *self = *self - earlier;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same program by either type: what a program that changes over has.
    macro_rules! durations {
        ($instant:ty, $start:expr) => {{
            let start: $instant = $start;
            let later = start + Duration::from_nanos(50);
            let mut moved = later;
            moved += Duration::from_micros(3);
            moved -= Duration::from_nanos(7);
            assert!(start < later && format!("{later:?}").starts_with("Instant {"));
            assert_eq!(later.checked_sub(Duration::from_nanos(50)), Some(start));
            [
                Some(later - start),
                Some(start - later),
                Some(later.duration_since(start)),
                Some(start.saturating_duration_since(later)),
                later.checked_duration_since(start),
                start.checked_duration_since(later),
                start.checked_add(Duration::MAX).map(|_| Duration::MAX),
                Some(moved - start),
                Some(moved - Duration::from_nanos(43) - start),
            ]
        }};
    }

    #[test]
    fn a_program_of_stds_instants_is_one_of_ours() {
        let ours = durations!(Instant, Instant::from_nanos(1 << 60));
        assert_eq!(ours, durations!(std::time::Instant, std::time::Instant::now()));
    }

    #[test]
    fn arithmetic_is_that_of_std() {
        let moment = Instant::from_nanos(1_000);
        let later = moment + Duration::from_nanos(50);
        assert_eq!(later.as_nanos(), 1_050);
        assert_eq!(later - moment, Duration::from_nanos(50));
        assert_eq!(moment - later, Duration::ZERO);
        assert_eq!(moment.checked_duration_since(later), None);
        assert_eq!(moment.checked_sub(Duration::from_nanos(1_001)), None);
        assert_eq!(moment.checked_add(Duration::MAX), None);
        let mut moved = moment;
        moved += Duration::from_nanos(5);
        moved -= Duration::from_nanos(10);
        assert_eq!(moved.as_nanos(), 995);
    }
}
