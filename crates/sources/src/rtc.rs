//! The real-time clock, as the kernel's sysfs shows it: whole seconds, or their
//! changes.

use std::path::{Path, PathBuf};

use facts::{Fact, Unknown};
use pvclock::units::{Interval, TimeReading};

use crate::SourceError;

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

// A clock of whole seconds, read where its seconds change.
//
// Anywhere else it shows the time to a second; at the change to the time
// between two looks. The looks are few: far apart at first, and then, as each
// change says when the next is due, close together around that alone. Update
// interrupts (RTC_UIE_ON) would save them, but say only that a second changed
// some time before, and belong to one reader at a time.

/// A clock of whole seconds, and the clock by which its changes are timed.
pub trait Seconds {
    /// The seconds that it shows.
    fn seconds(&self) -> Option<u64>;
    /// The other clock, ns: one that nobody sets.
    fn now_ns(&self) -> u64;
    /// Waits for so long, ns.
    fn wait(&self, ns: u64);
}

/// When a second began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtcEdge {
    /// The second.
    pub second: u64,
    /// The other clock when it had not begun, ns.
    pub before_ns: u64,
    /// The other clock when it had begun, ns.
    pub after_ns: u64,
}

/// Between two looks while nothing is known, ns.
const SEARCH_NS: u64 = 5_000_000;

/// Between two looks at least, ns: a look costs some port reads, each of which
/// is an exit in a virtual machine.
const CLOSEST_NS: u64 = 100_000;

/// Looks that the time within which a change is expected is worth.
const LOOKS: u64 = 8;

/// Beyond this a clock that shows the same second stands still, ns.
const LONGEST_NS: u64 = 1_300_000_000;

/// How far the two clocks' rates may differ, ppm: twice that of a poor crystal
/// and all of an NTP client's correction.
const WANDER_PPM: u64 = 1_000;

impl RtcEdge {
    /// By how much it is uncertain, ns.
    pub fn width_ns(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }

    /// What the clock showed, ns, at least and at most, when the other one
    /// showed `at_ns`: a time near the edge, before or after it.
    ///
    /// 10 ms after an edge that is known to 0.1 ms it was 9.9 to 10 ms past the
    /// second, and 10 µs more or less for the difference of their rates.
    pub fn clock_ns(&self, at_ns: u64) -> Option<(u64, u64)> {
        let wander = self.after_ns.abs_diff(at_ns).max(self.before_ns.abs_diff(at_ns));
        let wander = i128::from(wander) * i128::from(WANDER_PPM) / 1_000_000;
        let second = i128::from(self.second) * 1_000_000_000;
        let since = |edge_ns: u64| second + i128::from(at_ns) - i128::from(edge_ns);
        let low = u64::try_from(since(self.after_ns) - wander).ok()?;
        Some((low, u64::try_from(since(self.before_ns) + wander).ok()?))
    }

    /// When to begin to look for the next edge after `now_ns`, and how long to
    /// wait between two looks.
    fn next(&self, now_ns: u64) -> (u64, u64) {
        let seconds = now_ns.saturating_sub(self.before_ns) / 1_000_000_000 + 1;
        let wander = seconds * 1_000 * WANDER_PPM;
        let begin = (self.before_ns + seconds * 1_000_000_000).saturating_sub(wander);
        let between = ((self.width_ns() + wander) / LOOKS).clamp(CLOSEST_NS, SEARCH_NS);
        (begin.saturating_sub(2 * between).max(now_ns), between)
    }

    /// How long after `now_ns` the looks for the next edge begin, ns.
    pub fn next_in_ns(&self, now_ns: u64) -> u64 {
        self.next(now_ns).0 - now_ns
    }
}

/// Waits for the next change of second, from what the last one says about it.
/// None where the clock cannot be read, stands still or was set meanwhile.
pub fn next_edge(clock: &impl Seconds, last: Option<RtcEdge>) -> Option<RtcEdge> {
    let mut between = SEARCH_NS;
    if let Some(last) = last {
        let now_ns = clock.now_ns();
        let (begin, closer) = last.next(now_ns);
        clock.wait(begin - now_ns);
        between = closer;
    }
    let begun_ns = clock.now_ns();
    let (mut before_ns, mut shown) = (begun_ns, clock.seconds()?);
    loop {
        clock.wait(between);
        let look_ns = clock.now_ns();
        let second = clock.seconds()?;
        let after_ns = clock.now_ns();
        if second != shown {
            let is_next = Some(second) == shown.checked_add(1);
            return is_next.then_some(RtcEdge { second, before_ns, after_ns });
        }
        if look_ns.saturating_sub(begun_ns) > LONGEST_NS {
            return None;
        }
        if look_ns.saturating_sub(begun_ns) > 4 * LOOKS * between {
            // It was missed: the next is a second away.
            between = SEARCH_NS;
        }
        (before_ns, shown) = (look_ns, second);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    /// A clock so many ppm fast, each look at which takes a while.
    struct Simulated {
        now_ns: Cell<u64>,
        looks: Cell<u32>,
        ppm: f64,
        look_ns: u64,
        set: Cell<i64>,
    }

    impl Simulated {
        fn new(ppm: f64, look_ns: u64) -> Self {
            let now_ns = Cell::new(5_123_456_789);
            Self { now_ns, looks: Cell::new(0), ppm, look_ns, set: Cell::new(0) }
        }

        fn shown_ns(&self, at_ns: u64) -> f64 {
            at_ns as f64 * (1.0 + self.ppm / 1e6) + 7e13 + self.set.get() as f64
        }
    }

    impl Seconds for Simulated {
        fn seconds(&self) -> Option<u64> {
            self.looks.set(self.looks.get() + 1);
            // It is read in the middle of the look.
            let at_ns = self.now_ns.get() + self.look_ns / 2;
            self.now_ns.set(self.now_ns.get() + self.look_ns);
            Some((self.shown_ns(at_ns) / 1e9) as u64)
        }

        fn now_ns(&self) -> u64 {
            self.now_ns.get()
        }

        fn wait(&self, ns: u64) {
            self.now_ns.set(self.now_ns.get() + ns + 60_000);
        }
    }

    #[test]
    fn edges_are_found_with_few_looks_and_hold_the_truth() {
        for (ppm, look_ns) in [(0.0, 20_000), (150.0, 20_000), (-400.0, 300_000), (3.0, 2_000_000)]
        {
            let clock = Simulated::new(ppm, look_ns);
            let mut last = None;
            for number in 0..30 {
                let looks = clock.looks.get();
                let edge = next_edge(&clock, last).unwrap();
                if let Some(RtcEdge { second, .. }) = last {
                    assert_eq!(edge.second, second + 1, "none is missed");
                    assert!(clock.looks.get() - looks < 50, "{}", clock.looks.get() - looks);
                }
                for at_ns in
                    [edge.before_ns - 300_000_000, edge.after_ns, edge.after_ns + 999_999_999]
                {
                    let (low, high) = edge.clock_ns(at_ns).unwrap();
                    let truth = clock.shown_ns(at_ns);
                    assert!(low as f64 <= truth && truth <= high as f64, "{ppm} {edge:?}");
                }
                if number > 3 {
                    assert!(edge.width_ns() < 1_000_000 + 2 * look_ns, "{}", edge.width_ns());
                }
                last = Some(edge);
            }
        }
    }

    #[test]
    fn a_clock_that_stands_still_or_is_set_has_no_edge() {
        let clock = Simulated::new(-1e6, 20_000);
        assert_eq!(next_edge(&clock, None), None);
        let clock = Simulated::new(0.0, 20_000);
        let edge = next_edge(&clock, None);
        clock.set.set(-3_600_000_000_000);
        let after = next_edge(&clock, edge).unwrap();
        assert_eq!(after.second + 3599, edge.unwrap().second);
    }
}
