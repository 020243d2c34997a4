use instruments::drift::budget::Budget;
use instruments::drift::{Nesting, Reading, Series, Span};

use super::super::clocks::ClockName;
use super::super::report::{
    DriftReport, Failure, NotMeasured, ReferenceReport, TscFrequency, TscSource,
};
use super::super::session::{Pair, judged};
use super::*;

/// A server 50 ppm fast that stepped by 20 ms, asked 100 times.
fn report() -> DriftReport {
    let name = "ntp 192.0.2.1";
    let mut series = Series::new();
    for n in 0..100 {
        let at = 1_000_000_000 * (n + 1);
        let step = if n >= 40 { 20_000_000 } else { 0 };
        let there = 1_795_000_000_000_000_000 + at + n * 50_000 + step;
        series
            .push(Reading {
                clock: Span { before: at, after: at + 400_000 + n % 7 * 90_000 },
                reference: Span { before: there + 200_000, after: there + 210_000 },
                nesting: Nesting::ClockOutside,
            })
            .unwrap();
    }
    let pairs = [Pair::of(ClockName::Monotonic, name, series)];
    let budget = Budget { max_ppm: Some(20.0), max_offset_ns: None };
    let reference = ReferenceReport {
        name: name.into(),
        asked: 112,
        answered: 100,
        failures: vec![Failure { what: "192.0.2.1: no answer in 1000 ms".into(), times: 12 }],
        agrees: None,
        stopped: None,
        interval_s: 1.0,
        stratum: Some(2),
        root_distance_ns: Some(1_500_000),
        leap: Some(1),
        compared: None,
        driver: None,
        ahead_of_utc_s: None,
        chrony: None,
    };
    DriftReport {
        references: vec![reference],
        pairs: pairs.iter().filter_map(|pair| judged(pair, budget)).collect(),
        not_measured: vec![NotMeasured { what: "rtc".into(), why: "not there: rtc0".into() }],
        budget,
        notes: vec!["A note.".into()],
        ..DriftReport::of_pairs(&pairs)
    }
}

#[test]
fn the_result_for_people() {
    insta::assert_snapshot!(render(&report(), Format::Text));
}

#[test]
fn what_is_taken_off_a_clock_of_tai_is_told() {
    let said = |ahead_of_utc_s| {
        let mut report = report();
        report.references[0].ahead_of_utc_s = ahead_of_utc_s;
        render(&report, Format::Text).contains("; counts TAI, of which 37 s are")
    };
    assert!(said(Some(37)) && !said(Some(0)) && !said(None));
}

#[test]
fn the_result_for_programs() {
    insta::assert_snapshot!(super::super::csv::render(&report()).replace('\r', ""));
}

#[test]
fn nothing_has_no_sign() {
    assert_eq!(
        [0.0, -0.001, 0.4, -50.0].map(|ppm| with_sign(ppm, 2)),
        ["0.00", "0.00", "+0.40", "-50.00"]
    );
}

#[test]
fn nothing_dropped_and_no_distance_are_said_so() {
    let mut report = report();
    report.references[0].root_distance_ns = Some(0);
    report.pairs[0].drift.kept = 100;
    let said = render(&report, Format::Markdown).replace('\n', " ");
    assert!(said.contains("; by its own word exact;"), "{said}");
    assert!(said.contains("; 100 comparisons of monotonic, none of them dropped."), "{said}");
}

#[test]
fn the_frequency_of_the_tsc_is_told() {
    let tsc = TscFrequency { hz: 2_445_424_000, from: TscSource::KvmClockPage };
    let said = render(&DriftReport { tsc_frequency: Some(tsc), ..report() }, Format::Text)
        .replace('\n', " ");
    let line = "tsc: taken to count at 2445424000 Hz, as the kvm-clock page says.";
    assert!(said.contains(line), "{said}");
}
