//! Layouts of ClockBound's segments, and their contents as a plain value.

use core::mem::size_of;

use crate::units::Malformed;

use crate::shared::{Aligned, Memory, Word};

/// Both words of the magic number, in the machine's byte order.
pub(super) const MAGIC: [u32; 2] = [0x414d_5a4e, 0x4342_0200];

/// 64-bit words behind the header in the longest layout.
pub(super) const WORDS: usize = 11;

/// Bytes of the header.
const HEADER: u32 = 16;

/// A segment, as long as the longest layout.
#[derive(Debug)]
#[repr(C)]
pub struct SegmentPage<M: Memory = Aligned> {
    pub(super) magic: [M::U32; 2],
    pub(super) size: M::U32,
    /// Bytes 0 and 1: the layout; 2 and 3: the generation, 0 until the first
    /// update.
    pub(super) version: M::U32,
    pub(super) words: [M::U64; WORDS],
}

const _: () = assert!(size_of::<SegmentPage>() == 16 + 8 * WORDS);

impl<M: Memory> SegmentPage<M> {
    /// A segment that was not written yet: no client takes it.
    pub fn new(layout: Layout) -> Self {
        Self {
            magic: MAGIC.map(M::U32::new),
            size: M::U32::new(layout.bytes()),
            version: M::U32::new(layout.version()),
            words: core::array::from_fn(|_| M::U64::new(0)),
        }
    }
}

/// The layouts in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// 1: of CLOCK_REALTIME, without disruptions.
    First,
    /// 2: of CLOCK_REALTIME.
    SystemClock,
    /// 3: of a time that clients compute from the TSC.
    Counter,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::First, Self::SystemClock, Self::Counter];

    /// The name of its file in `/var/run/clockbound`.
    pub const fn file(self) -> &'static str {
        match self {
            Self::First => "shm",
            Self::SystemClock => "shm0",
            Self::Counter => "shm1",
        }
    }

    /// Length of a segment, bytes.
    pub const fn bytes(self) -> u32 {
        HEADER
            + 8 * match self {
                Self::First => 7,
                Self::SystemClock => 8,
                Self::Counter => WORDS as u32,
            }
    }

    /// The header's field: from 3 on with the oldest layout that clients may
    /// take it for in the upper byte.
    pub(super) const fn version(self) -> u32 {
        match self {
            Self::First => 1,
            Self::SystemClock => 2,
            Self::Counter => 0x0303,
        }
    }

    /// The bytes of a new file.
    pub fn new_file(self) -> [u8; size_of::<SegmentPage>()] {
        let mut bytes = [0; size_of::<SegmentPage>()];
        let header = [MAGIC[0], MAGIC[1], self.bytes(), self.version()];
        for (to, from) in bytes.chunks_exact_mut(4).zip(header) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }
}

/// What a daemon states of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentStatus {
    /// Nothing.
    Unknown,
    /// It is corrected, and the bound holds.
    Synchronised,
    /// No source corrects it any more; the bound holds.
    FreeRunning,
    /// The machine was paused, restored or migrated, and the clock was not
    /// measured since: no bound holds.
    Disrupted,
}

/// A number below 1, as `numerator / 2^(64 + shift)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fraction {
    /// The numerator.
    pub numerator: u64,
    /// The shift.
    pub shift: u8,
}

impl Fraction {
    /// `over / under`, with all the digits that fit: 1 s / 2.6 GHz is
    /// 1 / 2.6e9 · 2^(64+31) / 2^(64+31). `None` unless it is below 1.
    pub fn new(over: u64, under: u64) -> Option<Self> {
        if over >= under {
            return None;
        }
        // The quotient of 128 bits by 64 is below 2^64 as `over < under`.
        let zeros = over.leading_zeros().min(63) - under.leading_zeros();
        let shift = if over << zeros < under { zeros } else { zeros - 1 };
        let numerator = ((u128::from(over) << (64 + shift)) / u128::from(under)) as u64;
        Some(Self { numerator, shift: shift as u8 })
    }
}

/// What layout 3 adds: the TSC that the time is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentCounter {
    /// The TSC at [`SegmentBound::as_of_ns`].
    pub tsc: u64,
    /// Seconds a cycle.
    pub period: Fraction,
    /// How far the period may be off, relative to it.
    pub period_error: Fraction,
}

/// The contents of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentBound {
    /// When the bound was computed, ns: by CLOCK_MONOTONIC_COARSE; in layout 3
    /// the time of day then, ns since 1970.
    pub as_of_ns: u64,
    /// By the same clock: the bound counts no more after this.
    pub void_after_ns: u64,
    /// The clock was off by no more than this, ns.
    pub bound_ns: u64,
    /// The VMClock page's disruption marker that the bound accounts for;
    /// clients compare it with the page. `None`: they do not open the page.
    pub disruption_marker: Option<u64>,
    /// By how much the bound grows, ns a second.
    pub max_drift_ppb: u32,
    /// The clock's state.
    pub status: SegmentStatus,
    /// In layout 3.
    pub counter: SegmentCounter,
}

const SECOND_NS: u64 = 1_000_000_000;

impl SegmentBound {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        as_of_ns: 0,
        void_after_ns: 0,
        bound_ns: 0,
        disruption_marker: None,
        max_drift_ppb: 0,
        status: SegmentStatus::Unknown,
        counter: SegmentCounter {
            tsc: 0,
            period: Fraction { numerator: 0, shift: 0 },
            period_error: Fraction { numerator: 0, shift: 0 },
        },
    };

    /// How far the clock may be off at `now_ns`, of the clock of
    /// [`SegmentBound::as_of_ns`]; `None` where nothing bounds it (any more). The
    /// caller compares [`SegmentBound::disruption_marker`] with the VMClock page.
    ///
    /// A coarse clock may be a tick behind the daemon's own: times before
    /// `as_of_ns` count as that.
    pub fn error_ns(&self, now_ns: u64) -> Option<u64> {
        let is_bounded =
            matches!(self.status, SegmentStatus::Synchronised | SegmentStatus::FreeRunning);
        if !is_bounded || now_ns > self.void_after_ns {
            return None;
        }
        let age_ns = u128::from(now_ns.saturating_sub(self.as_of_ns));
        let grown = (age_ns * u128::from(self.max_drift_ppb)).div_ceil(u128::from(SECOND_NS));
        Some(self.bound_ns.saturating_add(u64::try_from(grown).ok()?))
    }

    /// The words of a segment.
    pub(super) fn to_words(self, layout: Layout) -> [u64; WORDS] {
        let [as_of_s, as_of] = split(self.as_of_ns);
        let [void_s, void] = split(self.void_after_ns);
        let status = match self.status {
            SegmentStatus::Unknown => 0,
            SegmentStatus::Synchronised => 1,
            SegmentStatus::FreeRunning => 2,
            // Clients 1.x know no fourth state.
            SegmentStatus::Disrupted if layout == Layout::First => 0,
            SegmentStatus::Disrupted => 3,
        };
        let bound = self.bound_ns.min(i64::MAX as u64);
        let drift = u64::from(self.max_drift_ppb);
        let (marker, is_marked) =
            (self.disruption_marker.unwrap_or(0), u64::from(self.disruption_marker.is_some()));
        let (state, counter) = (drift | status << 32, self.counter);
        let shifts =
            u64::from(counter.period.shift) << 8 | u64::from(counter.period_error.shift) << 16;
        let mut words = [0; WORDS];
        let mut put = |from: &[u64]| words[..from.len()].copy_from_slice(from);
        match layout {
            Layout::First => put(&[as_of_s, as_of, void_s, void, bound, drift, status]),
            Layout::SystemClock => {
                put(&[as_of_s, as_of, void_s, void, bound, marker, state, is_marked]);
            }
            Layout::Counter => {
                let (tsc, period) = (counter.tsc, counter.period.numerator);
                let error = counter.period_error.numerator;
                let (last, first) = (is_marked | shifts, [tsc, as_of_s, as_of, void_s, void]);
                put(&first);
                words[first.len()..].copy_from_slice(&[period, error, bound, marker, state, last]);
            }
        }
        words
    }

    /// The contents of a segment's words.
    ///
    /// # Errors
    /// The field that makes no sense.
    pub(super) fn from_words(layout: Layout, words: &[u64; WORDS]) -> Result<Self, Malformed> {
        let (tsc, times) = match layout {
            Layout::Counter => (words[0], &words[1..]),
            _ => (0, &words[..]),
        };
        let (low, high) = (|word: u64| word & 0xffff_ffff, |word: u64| word >> 32);
        let mut counter = SegmentCounter { tsc, ..SegmentCounter::default() };
        let (bound_ns, marker, drift, status) = match layout {
            Layout::First => (words[4], None, low(words[5]), low(words[6])),
            Layout::SystemClock => {
                let marker = (words[7] & 0xff != 0).then_some(words[5]);
                (words[4], marker, low(words[6]), high(words[6]))
            }
            Layout::Counter => {
                let shift = |by: u32| (words[10] >> by) as u8;
                counter.period = Fraction { numerator: words[5], shift: shift(8) };
                counter.period_error = Fraction { numerator: words[6], shift: shift(16) };
                let marker = (words[10] & 0xff != 0).then_some(words[8]);
                (words[7], marker, low(words[9]), high(words[9]))
            }
        };
        let within = |field, found: u64, below: u64| {
            if found < below { Ok(found) } else { Err(malformed(field, found)) }
        };
        Ok(Self {
            as_of_ns: joined("as-of", times[0], times[1])?,
            void_after_ns: joined("void-after", times[2], times[3])?,
            bound_ns: within("bound", bound_ns, 1 << 63)?,
            disruption_marker: marker,
            max_drift_ppb: within("max drift", drift, SECOND_NS)? as u32,
            status: match status {
                0 => SegmentStatus::Unknown,
                1 => SegmentStatus::Synchronised,
                2 => SegmentStatus::FreeRunning,
                3 if layout != Layout::First => SegmentStatus::Disrupted,
                found => return Err(malformed("clock status", found)),
            },
            counter,
        })
    }
}

fn malformed(field: &'static str, found: u64) -> Malformed {
    Malformed::new("a ClockBound segment", field, found)
}

/// Seconds and nanoseconds.
fn split(ns: u64) -> [u64; 2] {
    [ns / SECOND_NS, ns % SECOND_NS]
}

fn joined(field: &'static str, seconds: u64, ns: u64) -> Result<u64, Malformed> {
    if ns >= SECOND_NS {
        return Err(malformed(field, ns));
    }
    let joined = seconds.checked_mul(SECOND_NS).and_then(|whole| whole.checked_add(ns));
    joined.ok_or(malformed(field, seconds))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = SegmentBound> {
        let status = prop::sample::select(
            &[
                SegmentStatus::Unknown,
                SegmentStatus::Synchronised,
                SegmentStatus::FreeRunning,
                SegmentStatus::Disrupted,
            ][..],
        );
        let times = (any::<u64>(), any::<u64>(), 0..1u64 << 63);
        let counter = (any::<u64>(), any::<(u64, u8)>(), any::<(u64, u8)>());
        (times, any::<Option<u64>>(), 0..1_000_000_000u32, status, counter).prop_map(
            |((as_of_ns, void_after_ns, bound_ns), disruption_marker, drift, status, counter)| {
                let fraction = |(numerator, shift)| Fraction { numerator, shift };
                let (tsc, period, error) = counter;
                let (period, period_error) = (fraction(period), fraction(error));
                SegmentBound {
                    as_of_ns,
                    void_after_ns,
                    bound_ns,
                    disruption_marker,
                    max_drift_ppb: drift,
                    status,
                    counter: SegmentCounter { tsc, period, period_error },
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        #[test]
        fn what_is_written_is_read(written in bound()) {
            for layout in Layout::ALL {
                let has_marker = layout != Layout::First;
                let has_counter = layout == Layout::Counter;
                let is_told = has_marker || written.status != SegmentStatus::Disrupted;
                let expected = SegmentBound {
                    status: if is_told { written.status } else { SegmentStatus::Unknown },
                    disruption_marker: written.disruption_marker.filter(|_| has_marker),
                    counter: if has_counter { written.counter } else { SegmentCounter::default() },
                    ..written
                };
                let read = SegmentBound::from_words(layout, &written.to_words(layout));
                prop_assert_eq!(read, Ok(expected));
            }
        }

        #[test]
        fn a_fraction_is_exact_to_its_last_digit(over in 1..1u64 << 40, more in 1..1u64 << 62) {
            let under = over + more;
            let fraction = Fraction::new(over, under).unwrap();
            let wrong = (fraction.numerator as f64 / 2f64.powi(64 + i32::from(fraction.shift)))
                / (over as f64 / under as f64) - 1.0;
            prop_assert!(wrong.abs() < 1e-12, "{fraction:?} {wrong}");
        }
    }

    #[test]
    fn a_nanosecond_of_a_gigahertz_counter() {
        // 2^93 / 10^9 is between 2^63 and 2^64.
        let fraction = Fraction::new(1, 1_000_000_000).unwrap();
        assert_eq!(fraction, Fraction { numerator: 9_903_520_314_283_042_199, shift: 29 });
        assert_eq!(Fraction::new(0, 5).map(|none| none.numerator), Some(0));
        assert_eq!(Fraction::new(5, 5), None);
    }

    #[test]
    fn fields_that_make_no_sense_are_named() {
        let words = SegmentBound::UNKNOWN.to_words(Layout::SystemClock);
        for (index, value, field) in [
            (1, SECOND_NS, "as-of"),
            (2, u64::MAX, "void-after"),
            (4, 1 << 63, "bound"),
            (6, SECOND_NS, "max drift"),
            (6, 4 << 32, "clock status"),
        ] {
            let mut words = words;
            words[index] = value;
            let error = SegmentBound::from_words(Layout::SystemClock, &words).unwrap_err();
            assert_eq!(error.field, field);
        }
    }

    #[test]
    fn nothing_but_a_bound_that_still_counts_is_one() {
        let sure = SegmentBound {
            as_of_ns: 10,
            void_after_ns: 20,
            bound_ns: 7,
            max_drift_ppb: 1,
            status: SegmentStatus::Synchronised,
            ..SegmentBound::UNKNOWN
        };
        // Rounded up; and before its time, by a coarser clock.
        assert_eq!((sure.error_ns(20), sure.error_ns(9)), (Some(8), Some(7)));
        assert_eq!(sure.error_ns(21), None);
        for status in [SegmentStatus::Unknown, SegmentStatus::Disrupted] {
            assert_eq!(SegmentBound { status, ..sure }.error_ns(15), None);
        }
    }
}
