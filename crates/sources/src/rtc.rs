//! The real-time clock, as the kernel's sysfs shows it: whole seconds, or their
//! changes.

mod edge;

use std::path::{Path, PathBuf};

use facts::{Fact, Unknown};
use pvclock::units::{Interval, TimeReading};

use crate::SourceError;

pub use edge::{RtcEdge, Seconds, next_edge};

/// Where the kernel lists them.
const CLASS: &str = "/sys/class/rtc";

/// A real-time clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtcSource {
    path: PathBuf,
}

impl RtcSource {
    /// `rtc0`, whatever it keeps: UTC, local time or a date years off.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn find() -> Fact<Self> {
        Self::below(Path::new(CLASS), "rtc0")
    }

    fn below(class: &Path, device: &str) -> Fact<Self> {
        let rtc = Self { path: class.join(device).join("since_epoch") };
        rtc.read_s().map(|_| rtc)
    }

    /// Its seconds since 1970: the time is up to one more.
    pub fn read_s(&self) -> Fact<u64> {
        self.seconds().into()
    }

    fn seconds(&self) -> Result<u64, Unknown> {
        let what = self.path.display().to_string();
        let text =
            std::fs::read_to_string(&self.path).map_err(|error| crate::unknown(&what, &error))?;
        let seconds = text.trim().parse();
        seconds.map_err(|_| Unknown::malformed(&what, "seconds since 1970", &text))
    }

    /// Its time between two stamps.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read<S>(&self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        let before = stamp();
        let seconds = self.seconds()?;
        Ok(reading(before, seconds, stamp()))
    }
}

/// Timed by CLOCK_MONOTONIC_RAW.
impl Seconds for RtcSource {
    fn seconds(&self) -> Option<u64> {
        RtcSource::seconds(self).ok()
    }

    fn now_ns(&self) -> u64 {
        linux::clock::LinuxClock::MonotonicRaw.read_ns().unwrap_or_default()
    }

    fn wait(&self, ns: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(ns));
    }
}

/// The time is up to a second more than the RTC shows.
fn reading<S>(before: S, seconds: u64, after: S) -> TimeReading<S> {
    let shown_ns = seconds.saturating_mul(1_000_000_000);
    let low = i128::from(seconds) * 1_000_000_000;
    let utc_ns = Interval { low, high: low + 1_000_000_000 };
    TimeReading { before, utc_ns, shown_ns: (shown_ns, shown_ns), cross_timestamp: None, after }
}

#[cfg(test)]
mod tests {
    use pvclock::units::ClockPair;

    use super::*;

    #[test]
    fn seconds_are_read_and_nonsense_is_not() {
        let class = tempfile::tempdir().unwrap();
        assert!(RtcSource::below(class.path(), "rtc0").unknown().is_some());
        std::fs::create_dir(class.path().join("rtc0")).unwrap();
        let file = class.path().join("rtc0/since_epoch");
        std::fs::write(&file, "1795000000\n").unwrap();
        let rtc = RtcSource::below(class.path(), "rtc0");
        let rtc = rtc.value().unwrap();
        assert_eq!(rtc.read_s(), Fact::Known(1_795_000_000));
        std::fs::write(&file, "-1\n").unwrap();
        assert!(matches!(rtc.read_s(), Fact::Unknown(Unknown::Malformed { .. })));
    }

    #[test]
    fn a_second_shown_is_half_a_second_known() {
        let at = ClockPair { monotonic_ns: 5, realtime_ns: 1_795_000_000_000_000_000 };
        let offset = reading(at, 1_795_000_002, at).offset().unwrap();
        assert_eq!((offset.offset_ns, offset.bound_ns), (2_500_000_000, 500_000_000));
    }
}
