use proptest::prelude::*;

use super::*;

const YEAR_2026: u64 = 1_795_000_000_000_000_000;

fn moment(monotonic_ns: u64, realtime_ns: u64) -> Moment {
    Moment { monotonic_ns, realtime_ns }
}

fn source() -> String {
    "source".to_owned()
}

#[test]
fn a_clock_set_meanwhile_widens_the_bound_by_as_much() {
    let told = Told::around(YEAR_2026 + 500, 100);
    let before = moment(0, YEAR_2026);
    let steady = told.between(source, before, moment(1000, YEAR_2026 + 1000)).unwrap();
    assert_eq!(steady, Offset { offset_ns: 0, bound_ns: 600, at_monotonic_ns: 1000 });
    // A second forward, meanwhile: half of it is in the middle, and all else
    // may be on either side.
    let after = moment(1000, YEAR_2026 + 1_000_001_000);
    let set = told.between(source, before, after).unwrap();
    assert_eq!((set.offset_ns, set.bound_ns), (-500_000_000, 1_500_000_600));
}

#[test]
fn what_cannot_be_is_told() {
    // Earlier after than before, by 300 ns, of which the errors explain 200.
    let told = Told { earliest_ns: i128::from(YEAR_2026) + 200, latest_ns: YEAR_2026.into() };
    let at = moment(0, YEAR_2026);
    let error = told.between(source, at, at).unwrap_err();
    assert_eq!(error, NoOffset::Contradiction { what: source(), by_ns: 200 });
    assert_eq!(error.to_string(), "source: its time contradicts itself by 200 ns");
    let far = Told::around(u64::MAX, 0).between(source, moment(0, 0), moment(0, 0));
    assert_eq!(far, Err(NoOffset::OutOfRange { what: source() }));
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
        let told = Told::around(read_at.checked_add_signed(truth + off_by).unwrap(), error);
        let offset = told.between(source, before, after).unwrap();
        prop_assert!(offset.offset_ns.abs_diff(truth) <= offset.bound_ns, "{offset:?}");
        // No wider than the reading and the error make it.
        prop_assert!(offset.bound_ns <= took / 2 + error + 1, "{offset:?}");
    }
}
