use disruptions::{Disruption, Evidence, FieldChange, Kind, Size};

use super::*;

fn at(event: Event) -> Line {
    let event = Said::Moved(event);
    Line { at_unix_ns: Some(1_795_241_162_797_851_948), at_monotonic_ns: 0, event }
}

#[test]
fn an_update_reads_as_one() {
    let field = |field: &str, before, after| FieldChange { field: field.into(), before, after };
    let update = PageUpdate {
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
    let anew = PageUpdate {
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
        Event::Late { unwatched_s: 5.13, cause: LateCause::Stopped },
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
    06:06:02.797  late       no look for 5.1 s: this process was stopped (SIGSTOP)
    06:06:02.797  page       gone: does not apply: no page
    ");
}

#[test]
fn spans_are_short() {
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
}

fn verdict(
    kind: Kind,
    size: Option<[f64; 2]>,
    behind: Option<[f64; 2]>,
    evidence: Vec<Evidence>,
) -> String {
    let size_of = |[ns, bound_ns]: [f64; 2]| Size { ns, bound_ns };
    line(&Line {
        at_unix_ns: Some(1_795_241_162_797_851_948),
        at_monotonic_ns: 0,
        event: Said::Disruption(Disruption {
            kind,
            at_monotonic_ns: 0,
            size: size.map(size_of),
            behind: behind.map(size_of),
            evidence,
        }),
    })
}

#[test]
fn a_verdict_says_what_it_rests_on() {
    let gap = |cause| Evidence::Unwatched { unwatched_s: 5.4, planned_s: 0.25, cause };
    let texts = [
        verdict(
            Kind::Pause,
            Some([5e9, 1200.0]),
            Some([5e9, 1200.0]),
            vec![
                Evidence::CounterWent { tsc_s: 5.25, raw_s: 0.25, planned_s: 0.25 },
                Evidence::PageStep { step_ns: -5_000_000_000, explained_ns: 150_000 },
            ],
        ),
        verdict(
            Kind::Pause,
            Some([61e9, 1e9]),
            Some([61e9, 1e9]),
            vec![Evidence::Rtc { gained_s: 61.0, bound_s: 1.0 }],
        ),
        verdict(Kind::Pause, Some([5.275e9, 1.25e8]), None, vec![gap(LateCause::StoodStill)]),
        verdict(Kind::ClockSet, Some([-3e9, 31.0]), None, vec![Evidence::WasSet]),
        verdict(
            Kind::Migrated,
            None,
            None,
            vec![Evidence::PageRate { before_hz: 2_400_000_000, after_hz: 2_400_048_000 }],
        ),
        verdict(
            Kind::LongSteal,
            Some([7e8, 1e7]),
            None,
            vec![Evidence::Stolen { cpu: 1, stolen_ns: 700_000_000 }],
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    06:06:02.797  PAUSE      the host stopped this machine for 5.000000 s ± 1.20 µs
                             the time of day is 5.000000 s ± 1.20 µs behind for it
                             - in a look planned for 250 ms the TSC went 5.250 s,
                             CLOCK_MONOTONIC_RAW 0.250 s
                             - the kvm-clock page stepped -5.000000 s; the host's
                             NTP explains 150.000 µs at most
    06:06:02.797  PAUSE      the host stopped this machine for 61.0 ± 1.0 s
                             the time of day is 61.0 ± 1.0 s behind for it
                             - the RTC went +61.0 ± 1.0 s against CLOCK_BOOTTIME
    06:06:02.797  PAUSE      the host stopped this machine for 5.3 ± 0.1 s
                             - no look for 5.4 s instead of 250 ms: the machine
                             stood still
    06:06:02.797  CLOCK SET  somebody set the time of day by -3.000000 s ± 31.0 ns
                             - the kernel says that the time of day was set
    06:06:02.797  MIGRATED   this machine goes on on another host
                             - the kvm-clock page says TSC 2400.000000 → 2400.048000
                             MHz (+20.000 ppm)
    06:06:02.797  LONG STEAL the host gave a CPU to others for 0.70 ± 0.01 s
                             - CPU 1 was denied 700 ms since it was last asked
    ");
}
