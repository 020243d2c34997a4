use inspect::comparison::{ClockName, ClockPairSeries, Unchecked};
use instruments::drift::Budget;
use instruments::drift::{DriftReading, Nesting, Series, Span};

use super::*;

const SINCE_1970: u64 = 1_795_000_000_000_000_000;

/// So many comparisons of a clock that is right, one a second.
fn pair(clock: ClockName, reference: &str, comparisons: u64) -> ClockPairSeries {
    pair_ahead(clock, reference, comparisons, 0)
}

fn pair_ahead(
    clock: ClockName,
    reference: &str,
    comparisons: u64,
    ahead_ns: u64,
) -> ClockPairSeries {
    let mut series = Series::new();
    for n in 0..comparisons {
        let before = SINCE_1970 + 1_000_000_000 * n;
        let reference = Span { before, after: before + 100 };
        let (clock, nesting) = (Span::instant(before + 50 + ahead_ns), Nesting::ReferenceOutside);
        series.push(DriftReading { clock, reference, nesting }).unwrap();
    }
    ClockPairSeries::new(clock, reference, series)
}

/// The sentences and the exit code by a budget.
fn verdict(
    pairs: &[ClockPairSeries],
    max_ppm: Option<f64>,
    max_offset_ns: Option<f64>,
) -> (String, u8) {
    let budget = Budget { max_ppm, max_offset_ns };
    let pairs: Vec<_> = pairs.iter().filter_map(|pair| pair.judged(budget)).collect();
    let not_held =
        Unchecked::from_pairs(&pairs, budget).iter().map(NotHeld::from_unchecked).collect();
    let report = DriftReport { pairs, budget, not_held, ..DriftReport::of_pairs(&[]) };
    let code = is_within(&report).map_or(2, |is_within| if is_within { 0 } else { 1 });
    (sentences(&report).join(" "), code)
}

#[test]
fn an_offset_from_no_time_of_day_is_not_checked() {
    let raw = [pair(ClockName::Realtime, "raw", 60), pair(ClockName::Monotonic, "raw", 60)];
    let (text, code) = verdict(&raw, None, Some(1e6));
    assert!(text.starts_with("--max-offset was not checked: no clock"), "{text}");
    assert!(text.ends_with(". It is not known whether the clocks are within the limit."), "{text}");
    assert_eq!(code, 2);
    let one_of_two =
        [pair(ClockName::Realtime, "ntp 192.0.2.1", 60), raw.into_iter().next().unwrap()];
    assert_eq!(verdict(&one_of_two, None, Some(1e6)), ("Within the limit.".into(), 0));
    assert_eq!(verdict(&one_of_two, None, None), (String::new(), 0));
}

#[test]
fn a_frequency_of_one_comparison_is_not_checked() {
    let once = || pair(ClockName::Realtime, "raw", 1);
    let (text, code) = verdict(&[once()], Some(1.0), None);
    let why = "--max-ppm was not checked for realtime: too few comparisons for a frequency. It is not known whether the clocks are within the limit.";
    assert_eq!((text.as_str(), code), (why, 2));
    // Against another reference it was measured.
    let elsewhere = pair(ClockName::Realtime, "ntp 192.0.2.1", 60);
    assert_eq!(verdict(&[once(), elsewhere], Some(1.0), None), ("Within the limit.".into(), 0));
}

#[test]
fn what_is_outside_is_so_whatever_else_was_not_measured() {
    let far = pair_ahead(ClockName::Phc, "ntp 192.0.2.1", 1, 1000);
    let (text, code) = verdict(&[far], Some(1.0), Some(1.0));
    assert!(text.contains("phc against ntp 192.0.2.1: the offset is beyond the 1.00 ns"), "{text}");
    assert!(
        text.contains("--max-ppm was not checked for phc") && text.ends_with("Outside the limit."),
        "{text}"
    );
    assert_eq!(code, 1);
}
