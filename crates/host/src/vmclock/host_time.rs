//! What a host knows of the time: samples of its sources in, one line out.
//!
//! | standing | samples agree | they do not, or there are none |
//! | --- | --- | --- |
//! | no time | synchronised | no time |
//! | synchronised, free running | synchronised | free running: the line continues |
//! | the same, and the samples contradict the line | unreliable: a new line | |
//! | unreliable | synchronised, if they agree with the new line | unreliable |

use alloc::vec::Vec;

use pvclock::units::{Interval, agreement, calendar};
use pvclock::vmclock::VmClockStatus;
use pvclock::{Hertz, Nanos, Ticks};

use super::line::{CounterPeriod, TimeLine, fine, middle};

const SECOND_NS: i128 = 1_000_000_000;

/// What a source states about leap seconds, as VMClock numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LeapAnnouncement {
    /// None is near.
    #[default]
    None,
    /// One will be inserted at the end of the month (adjtimex: STA_INS).
    Insert,
    /// One will be left out at the end of the month (STA_DEL).
    Delete,
    /// It is being inserted (TIME_OOP).
    Inserting,
    /// One was inserted not long ago (TIME_WAIT).
    Inserted,
    /// One was left out not long ago.
    Deleted,
}

impl LeapAnnouncement {
    /// By the state that adjtimex returns (include/uapi/linux/timex.h).
    pub const fn of_adjtimex(state: i32) -> Self {
        match state {
            1 => Self::Insert,
            2 => Self::Delete,
            3 => Self::Inserting,
            4 => Self::Inserted,
            _ => Self::None,
        }
    }
}

/// The time by one source of the host: chronyd, adjtimex, a PTP clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSample {
    /// The host's TSC at the moment.
    pub tsc: Ticks,
    /// The time then, ns since 1970 by TAI's own count: of UTC, its ns plus 37 s.
    pub tai: Nanos,
    /// The truth is within ± this by the source: root distance, maxerror, and half of
    /// what the reading took.
    pub max_error: Nanos,
    /// TAI less UTC, s.
    pub tai_offset_s: i32,
    /// Whether a leap second is near.
    pub leap: LeapAnnouncement,
}

impl TimeSample {
    /// A sample with no leap second near.
    pub const fn new(tsc: Ticks, tai: Nanos, max_error: Nanos, tai_offset_s: i32) -> Self {
        Self { tsc, tai, max_error, tai_offset_s, leap: LeapAnnouncement::None }
    }

    /// The same with what its source states about leap seconds.
    #[must_use]
    pub const fn with_leap(self, leap: LeapAnnouncement) -> Self {
        Self { leap, ..self }
    }
}

/// What is known of a host beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSettings {
    /// The rate of its TSC.
    pub tsc: Hertz,
    /// How far that may be off, parts per billion.
    pub tsc_error_ppb: u64,
    /// How far the TSC's rate may get from its mean of the last minutes, ppb.
    pub wander_ppb: u64,
    /// How many sources there are, whether they answer or not: fewer than half of these
    /// may lie at a time.
    pub sources: usize,
    /// The rate is measured over one to two of these.
    pub window: Nanos,
    /// A time with a larger error is unreliable.
    pub useless: Nanos,
}

impl TimeSettings {
    /// A host with a TSC of `tsc` and one source: 500 ppm of error of that rate, as
    /// Linux allows NTP to correct; 1 ppm of wander, as chronyd assumes (maxclockerror);
    /// 1024 s, 1 s.
    pub const fn new(tsc: Hertz) -> Self {
        Self {
            tsc,
            tsc_error_ppb: 500_000,
            wander_ppb: 1_000,
            sources: 1,
            window: Nanos(1_024_000_000_000),
            useless: Nanos(1_000_000_000),
        }
    }

    /// The same with any fields changed.
    #[must_use]
    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A moment of which the time was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    tsc: u64,
    ns: u64,
    error: Nanos,
}

/// What the sources agreed on last about UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UtcScale {
    pub(crate) tai_offset_s: i32,
    pub(crate) leap: LeapAnnouncement,
    /// Leap seconds come between months: later, this is not known.
    month: i128,
}

/// What a host knows of the time.
///
/// ```
/// use pvclock_host::vmclock::{HostTime, TimeSample, TimeSettings};
/// use pvclock::vmclock::VmClockStatus;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let mut time = HostTime::new(TimeSettings::new(Hertz(2_000_000_000)));
/// let tai = Nanos(1_800_000_037_000_000_000);
/// let sample = TimeSample::new(Ticks(5_000), tai, Nanos(250), 37);
/// assert_eq!(time.update(Ticks(7_000), &[sample]), VmClockStatus::SYNCHRONISED);
/// // A µs later, of a TSC that may be 500 ppm off: 250 ns, 1 more, and rounding.
/// let (now, error) = time.time_at(Ticks(7_000)).ok_or("no time")?;
/// assert_eq!((now, error), (Nanos(1_800_000_037_000_001_000), Nanos(254)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone)]
pub struct HostTime {
    settings: TimeSettings,
    status: VmClockStatus,
    line: Option<TimeLine>,
    /// Where the period was measured last.
    measured_at: u64,
    /// Two marks, a window apart: the older one is the period's other end.
    anchors: Option<[Mark; 2]>,
    utc: Option<UtcScale>,
}

impl HostTime {
    /// A host that has not asked its sources yet.
    pub const fn new(settings: TimeSettings) -> Self {
        let (line, anchors, utc) = (None, None, None);
        Self { settings, status: VmClockStatus::UNKNOWN, line, measured_at: 0, anchors, utc }
    }

    /// Forgets all: the host slept, or its TSC was disrupted.
    pub fn forget(&mut self) {
        *self = Self::new(self.settings);
    }

    /// The state of the host's clock, as pages have it.
    pub const fn status(&self) -> VmClockStatus {
        self.status
    }

    /// The time at a TSC value, in ns since 1970 by TAI's count, and its largest error.
    pub fn time_at(&self, tsc: Ticks) -> Option<(Nanos, Nanos)> {
        let (ns, error) = middle(self.line_at(tsc)?.interval())?;
        Some((Nanos(ns), error))
    }

    pub(crate) fn line_at(&self, tsc: Ticks) -> Option<TimeLine> {
        self.line?.moved_to(tsc.0)
    }

    pub(crate) const fn utc(&self) -> Option<UtcScale> {
        self.utc
    }

    /// Takes what the sources say, at the host's TSC `now`; without samples only its
    /// bound grows. Returns the state of the clock. Write the pages after it.
    pub fn update(&mut self, now: Ticks, samples: &[TimeSample]) -> VmClockStatus {
        let liars = (self.settings.sources.max(samples.len()).max(1) - 1) / 2;
        let held = self.line_at(now);
        let period = self.line.map(|line| line.period).or_else(|| self.nominal());
        let moved = |sample: &TimeSample| {
            let (tsc, time, error) = (sample.tsc.0, fine(sample.tai.0), sample.max_error);
            Some(TimeLine { tsc, time, error, period: period? }.moved_to(now.0)?.interval())
        };
        let intervals: Vec<_> = samples.iter().filter_map(moved).collect();
        let (believed, contradicted) = match held {
            Some(held) => believed_beside(held.interval(), &intervals, liars),
            None => (agreed(&intervals, liars), false),
        };
        let mark = believed.and_then(middle);
        let mark = mark.map(|(ns, error)| Mark { tsc: now.0, ns, error });
        self.status = match (mark, held) {
            (Some(_), Some(_)) if !contradicted => {
                self.go_on(mark, period);
                VmClockStatus::SYNCHRONISED
            }
            (Some(_), _) => {
                self.begin(mark);
                if contradicted { VmClockStatus::UNRELIABLE } else { VmClockStatus::SYNCHRONISED }
            }
            (None, Some(held)) => {
                self.line = Some(held);
                let was_right = self.status == VmClockStatus::SYNCHRONISED;
                if was_right { VmClockStatus::FREE_RUNNING } else { self.status }
            }
            (None, None) => VmClockStatus::UNKNOWN,
        };
        if self.line.is_some_and(|line| line.error > self.settings.useless) {
            self.status = VmClockStatus::UNRELIABLE;
        }
        self.hear_of_utc(samples, liars);
        self.status
    }

    /// What more sources state than may lie; without that, what they stated this month.
    fn hear_of_utc(&mut self, samples: &[TimeSample], liars: usize) {
        let said = samples.iter().map(|sample| (sample.tai_offset_s, sample.leap));
        let Some((tai_offset_s, leap)) = common(said, liars + 1) else {
            let is_same = |utc: &UtcScale| self.month(utc.tai_offset_s) == Some(utc.month);
            // Sources that answer and disagree have more to say than those before.
            self.utc = self.utc.filter(is_same).filter(|_| samples.len() <= liars);
            return;
        };
        let month = self.month(tai_offset_s);
        self.utc = month.map(|month| UtcScale { tai_offset_s, leap, month });
    }

    fn nominal(&self) -> Option<CounterPeriod> {
        CounterPeriod::nominal(self.settings.tsc, self.settings.tsc_error_ppb)
    }

    /// A line from nothing.
    fn begin(&mut self, mark: Option<Mark>) {
        self.line = mark.zip(self.nominal()).map(|(mark, period)| line(mark, period));
        self.anchors = mark.map(|mark| [mark; 2]);
    }

    /// The line through `mark`, by a period that is measured again.
    fn go_on(&mut self, mark: Option<Mark>, period: Option<CounterPeriod>) {
        let (Some(mark), Some(mut period)) = (mark, period) else { return self.begin(mark) };
        if let Some([old, middle]) = &mut self.anchors {
            let since = |from: &Mark| mark.ns.saturating_sub(from.ns);
            let elapsed = fine(since(old));
            let errors = fine(old.error.0.saturating_add(mark.error.0).saturating_add(1));
            let cycles = mark.tsc.wrapping_sub(old.tsc);
            let new = CounterPeriod::new(elapsed, errors, cycles, self.settings.wander_ppb);
            let window = self.settings.window.0;
            let age = mark.tsc.wrapping_sub(self.measured_at);
            let is_old = period.elapsed(age) > fine(window);
            if let Some(new) = new.filter(|new| is_old || new.is_finer(period)) {
                (period, self.measured_at) = (new, mark.tsc);
            }
            if since(middle) > window {
                (*old, *middle) = (*middle, mark);
            }
        }
        self.line = Some(line(mark, period));
    }

    /// The month of UTC, counted from year 0.
    fn month(&self, tai_offset_s: i32) -> Option<i128> {
        let tai = self.line?.interval().low;
        let utc_s = tai.div_euclid(SECOND_NS) - i128::from(tai_offset_s);
        let date = calendar::date(utc_s.div_euclid(86_400));
        Some(date.year * 12 + i128::from(date.month))
    }
}

/// What to believe beside the line that is held: those that contradict it lie, unless
/// there are more of them than may. Then the line was wrong, and they are believed
/// without it.
fn believed_beside(
    held: Interval<i128>,
    intervals: &[Interval<i128>],
    liars: usize,
) -> (Option<Interval<i128>>, bool) {
    let near = intervals.iter().map(|interval| interval.overlap(held));
    let near: Vec<_> = near.filter(|interval| !interval.is_empty()).collect();
    match liars.checked_sub(intervals.len() - near.len()) {
        Some(left) => (agreed(&near, left), false),
        None => {
            let believed = agreed(intervals, liars);
            (believed, believed.is_some())
        }
    }
}

/// Where all of them agree but as many as may lie: the truth is in it while no more do. `None`
/// where all may lie, or too many contradict each other.
fn agreed(intervals: &[Interval<i128>], liars: usize) -> Option<Interval<i128>> {
    let quorum = intervals.len().checked_sub(liars)?;
    let mut ends: Vec<_> = intervals.iter().copied().flat_map(Interval::ends).collect();
    Some(agreement(&mut ends, quorum)?.span)
}

/// The value that at least `quorum` of them have.
fn common<T: Copy + PartialEq>(
    values: impl Iterator<Item = T> + Clone,
    quorum: usize,
) -> Option<T> {
    let mut candidates = values.clone();
    candidates.find(|candidate| values.clone().filter(|value| value == candidate).count() >= quorum)
}

fn line(mark: Mark, period: CounterPeriod) -> TimeLine {
    TimeLine { tsc: mark.tsc, time: fine(mark.ns), error: mark.error, period }
}
