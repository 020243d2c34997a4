//! Pairs for tests.

use instruments::drift::{DriftReading, Nesting, Series, Span};

use super::*;
use crate::comparison::clocks::ClockName;
use crate::comparison::session::ClockPairSeries;

const SINCE_1970: u64 = 1_795_000_000_000_000_000;

/// So many comparisons, one a second, of a clock that is ahead by `ahead_ns` of
/// the second.
pub(super) fn pair_of(
    clock: ClockName,
    reference: &str,
    comparisons: u64,
    ahead_ns: impl Fn(u64) -> i64,
) -> ClockPairSeries {
    let mut series = Series::new();
    for n in 1..=comparisons {
        let before = SINCE_1970 + 1_000_000_000 * n;
        let reference = Span { before, after: before + 100 };
        let clock = Span::instant((before + 50).saturating_add_signed(ahead_ns(n)));
        series.push(DriftReading { clock, reference, nesting: Nesting::ReferenceOutside }).unwrap();
    }
    ClockPairSeries::new(clock, reference, series)
}

#[test]
fn a_reference_that_does_not_reply_pauses_for_longer_and_longer() {
    let pauses_s = (0..8).map(|failed| pause_after(failed, Duration::from_secs(1)).as_secs());
    assert_eq!(pauses_s.collect::<Vec<_>>(), [0, 0, 8, 16, 32, 64, 64, 64]);
    // One that fails at once delays no other.
    assert_eq!(pause_after(9, Duration::ZERO), Duration::ZERO);
}
