use inspect::comparison::{ClockPairSeries, Failure, NotCompared, TscFrequency, TscSource};
use instruments::drift::Budget;
use instruments::drift::{DriftReading, Nesting, Series, Span};
use sources::ReadStatus;

use super::*;

/// A server 50 ppm fast that stepped by 20 ms, queried 100 times.
fn report() -> DriftReport {
    let name = "ntp 192.0.2.1";
    let mut series = Series::new();
    for n in 0..100 {
        let at = 1_000_000_000 * (n + 1);
        let step = if n >= 40 { 20_000_000 } else { 0 };
        let there = 1_795_000_000_000_000_000 + at + n * 50_000 + step;
        series
            .push(DriftReading {
                clock: Span { before: at, after: at + 400_000 + n % 7 * 90_000 },
                reference: Span { before: there + 200_000, after: there + 210_000 },
                nesting: Nesting::ClockOutside,
            })
            .unwrap();
    }
    let pairs = [ClockPairSeries::new(ClockName::Monotonic, name, series)];
    let budget = Budget { max_ppm: Some(20.0), max_offset_ns: None };
    let reference = ReferenceReport {
        name: name.into(),
        tried: 112,
        made: 100,
        failures: vec![Failure { what: "192.0.2.1: no reply within 1000 ms".into(), times: 12 }],
        agrees: None,
        stopped: None,
        interval_s: 1.0,
        status: ReadStatus {
            stratum: Some(2),
            root_distance_ns: Some(1_500_000),
            leap: Some(1),
            ..ReadStatus::default()
        },
    };
    DriftReport {
        references: vec![reference],
        pairs: pairs.iter().filter_map(|pair| pair.judged(budget)).collect(),
        not_measured: vec![NotCompared { what: ClockName::Rtc, why: "not there: rtc0".into() }],
        budget,
        notes: vec!["A note.".into()],
        ..DriftReport::of_pairs(&pairs)
    }
}

#[test]
fn the_result_for_people() {
    insta::assert_snapshot!(render(&report(), true));
}

#[test]
fn what_is_subtracted_from_a_clock_of_tai_is_shown() {
    let shows = |ahead_of_utc_s| {
        let mut report = report();
        report.references[0].status.ahead_of_utc_s = ahead_of_utc_s;
        render(&report, true).replace('\n', " ").contains("; counts TAI: 37 s subtracted")
    };
    assert!(shows(Some(37)) && !shows(Some(0)) && !shows(None));
}

#[test]
fn nothing_has_no_sign() {
    assert_eq!(
        [0.0, -0.001, 0.4, -50.0].map(|ppm| with_sign(ppm, 2)),
        ["0.00", "0.00", "+0.40", "-50.00"]
    );
}

#[test]
fn nothing_dropped_and_no_distance_are_shown() {
    let mut report = report();
    report.references[0].status.root_distance_ns = Some(0);
    report.pairs[0].drift.kept = 100;
    let text = render(&report, true).replace('\n', " ");
    assert!(text.contains("; root distance 0;"), "{text}");
    assert!(text.contains("; used all 100 comparisons of monotonic."), "{text}");
}

#[test]
fn the_frequency_of_the_tsc_is_shown() {
    let tsc = TscFrequency { hz: 2_445_424_000, from: TscSource::KvmClockPage };
    let text =
        render(&DriftReport { tsc_frequency: Some(tsc), ..report() }, true).replace('\n', " ");
    let line = "tsc: converted at 2445424000 Hz, from the kvm-clock page.";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_first_line_is_the_answer() {
    let line = |report: &DriftReport| answer::sentence(report);
    let text = line(&report());
    // Its offset counts from boot, so only its rate can be wrong.
    assert!(
        text.starts_with("monotonic runs 50.00 ± 7.43 ppm slow against ntp 192.0.2.1"),
        "{text}"
    );
    assert!(text.ends_with(": outside the limit."), "{text}");
    let mut alone = report();
    alone.pairs[0].reference = "raw".into();
    assert!(line(&alone).ends_with("shows nothing about true time: add --ntp HOST."));
    let mut utc = report();
    utc.pairs[0].clock = ClockName::Realtime;
    utc.pairs[0].offset_is_error = true;
    utc.pairs[0].drift.offset.ns = -2e9;
    utc.pairs[0].drift.offset.bound_ns = 58_000.0;
    let text = line(&utc);
    assert!(
        text.starts_with("realtime is 2.00 s ± 58.0 µs behind ntp 192.0.2.1 and runs"),
        "{text}"
    );
    utc.pairs[0].drift.offset.ns = 57_000.0;
    utc.pairs[0].drift.frequency = None;
    utc.budget = Budget::default();
    let text = line(&utc);
    assert_eq!(
        text,
        "realtime agrees with ntp 192.0.2.1 within 58.0 µs and was compared too rarely for a rate."
    );
}
