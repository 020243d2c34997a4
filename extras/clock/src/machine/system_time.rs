//! A time of day with its error, in the style of `std::time::SystemTime`.

use std::time::{Duration, UNIX_EPOCH};

use crate::timeline::bound::growth_ns;
use crate::timeline::view::TimeOfDay;

/// A time of day, and between which times UTC lies.
///
/// The time is CLOCK_REALTIME's. Its error bound is the one that the time
/// daemon set in the kernel (adjtimex: `maxerror`) or publishes in a ClockBound
/// segment, or the host's (VMClock): the smallest of them. It grows by 500 ppm from the last
/// sample on, and includes the error of this clock itself. Which one it is, is
/// in [`MachineClockStatus`](crate::MachineClockStatus).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemTime {
    /// ns since 1970.
    ns: i64,
    error_ns: Option<u64>,
}

impl SystemTime {
    #[inline]
    pub(crate) fn new(time: &TimeOfDay) -> Self {
        let ns = time.monotonic_ns.cast_signed().wrapping_add(time.realtime_offset_ns);
        let error_ns = (time.error_ns != u64::MAX)
            .then(|| time.error_ns.saturating_add(growth_ns(time.error_at_ns, time.monotonic_ns)));
        Self { ns, error_ns }
    }

    /// Nanoseconds since 1970, negative before.
    #[inline]
    pub const fn unix_nanos(self) -> i64 {
        self.ns
    }

    /// The time, as the standard library has it.
    pub fn time(self) -> std::time::SystemTime {
        since_epoch(self.ns)
    }

    /// How far UTC may be from it; `None` where nothing bounds that.
    pub fn error(self) -> Option<Duration> {
        self.error_ns.map(Duration::from_nanos)
    }

    /// UTC is not before this.
    pub fn earliest(self) -> Option<std::time::SystemTime> {
        Some(since_epoch(self.ns.saturating_sub_unsigned(self.error_ns?)))
    }

    /// UTC is not after this.
    pub fn latest(self) -> Option<std::time::SystemTime> {
        Some(since_epoch(self.ns.saturating_add_unsigned(self.error_ns?)))
    }
}

impl From<SystemTime> for std::time::SystemTime {
    fn from(time: SystemTime) -> Self {
        time.time()
    }
}

fn since_epoch(ns: i64) -> std::time::SystemTime {
    let away = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { UNIX_EPOCH - away } else { UNIX_EPOCH + away }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: TimeOfDay = TimeOfDay {
        monotonic_ns: 3_000_000_000,
        realtime_offset_ns: 7_000_000_000,
        error_ns: 40_000,
        error_at_ns: 1_000_000_000,
    };

    #[test]
    fn the_error_grows_from_when_it_was_measured() {
        let time = SystemTime::new(&TIME);
        assert_eq!(time.unix_nanos(), 10_000_000_000);
        assert_eq!(time.time(), UNIX_EPOCH + Duration::from_secs(10));
        // 500 ppm of two seconds is a millisecond.
        assert_eq!(time.error(), Some(Duration::from_nanos(1_040_001)));
        assert_eq!(time.earliest(), Some(UNIX_EPOCH + Duration::from_nanos(9_998_959_999)));
        assert_eq!(time.latest(), Some(UNIX_EPOCH + Duration::from_nanos(10_001_040_001)));
    }

    #[test]
    fn an_unbounded_time_has_no_error() {
        let time = SystemTime::new(&TimeOfDay { error_ns: u64::MAX, ..TIME });
        assert_eq!((time.error(), time.earliest(), time.latest()), (None, None, None));
    }

    #[test]
    fn a_time_before_1970_is_a_time() {
        let time = SystemTime::new(&TimeOfDay { realtime_offset_ns: -4_000_000_000, ..TIME });
        assert_eq!(std::time::SystemTime::from(time), UNIX_EPOCH - Duration::from_secs(1));
    }
}
