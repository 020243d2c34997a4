use super::super::event::{Field, Update};
use super::*;

fn at(event: Event) -> Line {
    Line { at_unix_ns: Some(1_795_241_162_797_851_948), at_monotonic_ns: 0, event }
}

#[test]
fn an_update_reads_as_one() {
    let field = |field: &str, before, after| Field { field: field.into(), before, after };
    let update = Update {
        updates: Some(1),
        version: 34,
        step_ns: Some(12),
        no_step: None,
        since_last_s: Some(3600.0),
        changed: vec![
            field("version", 32, 34),
            field("tsc_timestamp", 3_451_391_528, 14_815_000_000_000),
            field("flags", 1, 3),
        ],
    };
    insta::assert_snapshot!(line(&at(Event::PageUpdate(update.clone()))), @r"
    06:06:02.797  page       version 32 → 34, system_time stepped +12 ns
                             tsc_timestamp 3451391528 → 14815000000000
                             flags 1 → 3
                             1 h 0 min after the update before
    ");
    let anew = Update {
        updates: None,
        step_ns: None,
        no_step: Some("the page is switched off (version 2)".into()),
        since_last_s: None,
        changed: vec![field("version", 32, 2)],
        ..update
    };
    insta::assert_snapshot!(line(&at(Event::PageUpdate(anew))), @r"
    06:06:02.797  page       version 32 → 2, no time to compare: the page is
                             switched off (version 2)
                             the version went back: the page was written anew
    ");
}

#[test]
fn other_events_read_as_sentences() {
    let step = |step_ns, bound_ns| Event::Step {
        clock: "CLOCK_REALTIME".into(),
        against: "CLOCK_MONOTONIC".into(),
        step_ns,
        bound_ns,
    };
    let moves = vec![
        Move::Frequency { before_ppm: -1.5, after_ppm: 2.25 },
        Move::Status { set: vec!["INS".into()], cleared: vec!["UNSYNC".into(), "PLL".into()] },
        Move::Offset { before_ns: 0, after_ns: -1_500_000 },
        Move::Tai { before_s: 0, after_s: 37 },
    ];
    let events = [
        step(1e9, 31.0),
        step(-250.0, 31.0),
        Event::Rate { before_hz: 2.4e9, after_hz: 2.4e9 + 4800.0 },
        Event::Source { before: "tsc".into(), after: "kvm\u{1b}clock".into() },
        Event::Adjtimex { moves },
        Event::Late { unwatched_s: 5.13 },
        Event::PageGone { why: "does not apply: no page".into() },
    ];
    let text: Vec<_> = events.into_iter().map(|event| line(&at(event))).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    06:06:02.797  step       CLOCK_REALTIME +1.000000 s ± 31 ns against
                             CLOCK_MONOTONIC
    06:06:02.797  step       CLOCK_REALTIME -250 ns ± 31 ns against CLOCK_MONOTONIC
    06:06:02.797  rate       TSC 2400.000000 → 2400.004800 MHz (+2.000 ppm) by
                             CLOCK_MONOTONIC_RAW
    06:06:02.797  source     tsc → kvm�clock
    06:06:02.797  adjtimex   frequency -1.500 → +2.250 ppm
                             status: INS set; UNSYNC, PLL cleared
                             offset 0 ns → -1500.000 µs
                             TAI - UTC 0 → 37 s
    06:06:02.797  late       no look for 5.1 s: not run, or the machine stood
    06:06:02.797  page       gone: does not apply: no page
    ");
}

#[test]
fn times_and_spans_are_short() {
    assert_eq!(time_of_day(None), "--:--:--.---");
    assert_eq!(time_of_day(Some(86_399_999_999_999)), "23:59:59.999");
    let spans = [0.1, 0.9994, 0.9999, 5.04, 59.96, 61.0, 3599.7, 7500.0, 200_000.0].map(span);
    let shown = [
        "100 ms",
        "999 ms",
        "1.0 s",
        "5.0 s",
        "1 min 0 s",
        "1 min 1 s",
        "1 h 0 min",
        "2 h 5 min",
        "2 d 7 h",
    ];
    assert_eq!(spans, shown);
    let sizes = [0.0, -0.4, 9_999.4, -9_999.6, 9_999_999.0, 1e10].map(signed);
    let shown = ["0 ns", "0 ns", "+9999 ns", "-10.000 µs", "+9999.999 µs", "+10.000000 s"];
    assert_eq!(sizes, shown);
}
