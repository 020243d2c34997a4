use std::string::ToString;

use proptest::prelude::*;

use super::*;

const YEAR_2026: u64 = 1_795_000_000_000_000_000;

fn moment(monotonic_ns: u64, realtime_ns: u64) -> ClockPair {
    ClockPair { monotonic_ns, realtime_ns }
}

fn offset(
    utc_ns: Interval<i128>,
    before: ClockPair,
    after: ClockPair,
) -> Result<OffsetBound, OffsetError> {
    TimeReading { before, utc_ns, shown_ns: (0, 0), cross_timestamp: None, after }.offset()
}

#[test]
fn a_clock_set_meanwhile_widens_the_bound_by_as_much() {
    let utc_ns = Interval::around(YEAR_2026 + 500, 100);
    let before = moment(0, YEAR_2026);
    let steady = offset(utc_ns, before, moment(1000, YEAR_2026 + 1000)).unwrap();
    assert_eq!(steady, OffsetBound { offset_ns: 0, bound_ns: 600, at_monotonic_ns: 1000 });
    // A second forward, meanwhile: half of it is in the middle, and all else
    // may be on either side.
    let set = offset(utc_ns, before, moment(1000, YEAR_2026 + 1_000_001_000)).unwrap();
    assert_eq!((set.offset_ns, set.bound_ns), (-500_000_000, 1_500_000_600));
}

#[test]
fn an_impossible_reading_is_an_error() {
    // Earlier after than before, by 300 ns, of which the errors explain 200.
    let utc_ns = Interval { low: i128::from(YEAR_2026) + 200, high: YEAR_2026.into() };
    let at = moment(0, YEAR_2026);
    let error = offset(utc_ns, at, at).unwrap_err();
    assert_eq!(error, OffsetError::Contradiction { by_ns: 200 });
    assert_eq!(error.to_string(), "its time contradicts itself by 200 ns");
    let far = offset(Interval::around(u64::MAX, 0), moment(0, 0), moment(0, 0));
    assert_eq!(far, Err(OffsetError::OutOfRange));
}

proptest! {
    /// A source that is off by a known amount, within its error, read at any
    /// moment between the two: the bound holds.
    #[test]
    fn the_truth_is_within_the_bound(
        truth in -1_000_000_000_000i64..1_000_000_000_000,
        took in 0u64..10_000_000, when in 0.0f64..=1.0,
        error in 0u64..1_000_000_000, wrong in -1.0f64..=1.0,
    ) {
        let before = moment(77, YEAR_2026);
        let after = moment(77 + took, YEAR_2026 + took);
        let read_at = YEAR_2026 + (took as f64 * when) as u64;
        let off_by = (error as f64 * wrong) as i64;
        let utc_ns = Interval::around(read_at.checked_add_signed(truth + off_by).unwrap(), error);
        let offset = offset(utc_ns, before, after).unwrap();
        prop_assert!(offset.offset_ns.abs_diff(truth) <= offset.bound_ns, "{offset:?}");
        // No wider than the reading and the error make it.
        prop_assert!(offset.bound_ns <= took / 2 + error + 1, "{offset:?}");
    }
}
