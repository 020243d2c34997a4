use disruptions::steering::Move;
use disruptions::{Disruption, Evidence, Kind, Kinds, LateCause, Size};

use instruments::steps::page::PageFieldChange;

use super::*;

fn at(event: Event) -> Line {
    let event = WatchEvent::Change(event);
    Line { at_unix_ns: Some(1_795_241_162_797_851_948), at_monotonic_ns: 0, event }
}

#[test]
fn an_update_is_one_event() {
    let field = |field, before, after| PageFieldChange { field, before, after };
    let update = ObservedPageUpdate {
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
    06:06:02.797  page        version 32 → 34, system_time stepped +12 ns
                              tsc_timestamp 3451391528 → 14815000000000
                              flags 1 → 3
                              1 h 0 min after the previous update
    ");
    let reset = ObservedPageUpdate {
        updates: None,
        step_ns: None,
        no_step: Some("the page is switched off (version 2)".into()),
        since_last_s: None,
        changed: vec![field("version", 32, 2)],
        ..update
    };
    insta::assert_snapshot!(line(&at(Event::PageUpdate(reset))), @r"
    06:06:02.797  page        version 32 → 2, step unknown: the page is switched off
                              (version 2)
                              the version went back: the page was reset
    ");
}

#[test]
fn other_events_read_as_sentences() {
    let step = |step_ns, bound_ns| Evidence::Step {
        clock: "CLOCK_REALTIME".into(),
        against: "CLOCK_MONOTONIC".into(),
        step_ns,
        bound_ns,
    };
    let moves = [
        Move::Frequency { before_ppm: -1.5, after_ppm: 2.25 },
        Move::Status { set: vec!["INS".into()], cleared: vec!["UNSYNC".into(), "PLL".into()] },
        Move::Offset { before_ns: 0, after_ns: -1_500_000 },
        Move::Tai { before_s: 0, after_s: 37 },
    ];
    let changes = [
        step(1e9, 31.0),
        step(-250.0, 31.0),
        Evidence::Rate { before_hz: 2.4e9, after_hz: 2.4e9 + 4800.0 },
        Evidence::Clocksource { before: "tsc".into(), after: "kvm\u{1b}clock".into() },
        Evidence::Late { gap_s: 5.13, planned_s: 0.25, cause: LateCause::ProcessStopped },
    ];
    let moves = moves.map(|change| Evidence::Adjtimex { change });
    let changes = changes.into_iter().chain(moves).map(Event::Change);
    let gone = Event::PageGone { why: "does not apply: no page".into() };
    let text: Vec<_> = changes.chain([gone]).map(|event| line(&at(event))).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    06:06:02.797  step        CLOCK_REALTIME stepped +1.000000 s ± 31.0 ns against
                              CLOCK_MONOTONIC
    06:06:02.797  step        CLOCK_REALTIME stepped -250 ns ± 31.0 ns against
                              CLOCK_MONOTONIC
    06:06:02.797  rate        TSC measured against CLOCK_MONOTONIC_RAW: 2400.000000
                              → 2400.004800 MHz (+2.000 ppm)
    06:06:02.797  clocksource tsc → kvm�clock
    06:06:02.797  late        no sample for 5.1 s instead of 250 ms: this process
                              was stopped (SIGSTOP)
    06:06:02.797  adjtimex    frequency -1.500 → +2.250 ppm
    06:06:02.797  adjtimex    status: INS set; UNSYNC, PLL cleared
    06:06:02.797  adjtimex    offset 0 ns → -1500.000 µs
    06:06:02.797  adjtimex    TAI - UTC 0 → 37 s
    06:06:02.797  page        no longer readable: does not apply: no page
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

fn disruption_line(
    kinds: impl Into<Kinds>,
    size: Option<[f64; 2]>,
    behind: Option<[f64; 2]>,
    evidence: Vec<Evidence>,
) -> String {
    let size_of = |[ns, bound_ns]: [f64; 2]| Size { ns, bound_ns };
    line(&Line {
        at_unix_ns: Some(1_795_241_162_797_851_948),
        at_monotonic_ns: 0,
        event: WatchEvent::Disruption(Disruption {
            kinds: kinds.into(),
            at_monotonic_ns: 0,
            size: size.map(size_of),
            behind: behind.map(size_of),
            evidence,
        }),
    })
}

fn gap(cause: LateCause) -> Evidence {
    Evidence::Late { gap_s: 5.4, planned_s: 0.25, cause }
}

#[test]
fn a_disruption_reads_as_sentence_and_evidence() {
    let texts = [
        disruption_line(
            Kind::Pause,
            Some([5e9, 1200.0]),
            Some([5e9, 1200.0]),
            vec![
                Evidence::ClocksDiverged { tsc_s: 5.25, raw_s: 0.25, planned_s: 0.25 },
                Evidence::PageStep { step_ns: -5_000_000_000, explained_ns: 150_000 },
            ],
        ),
        disruption_line(
            Kind::Pause,
            Some([61e9, 1e9]),
            Some([61e9, 1e9]),
            vec![Evidence::Rtc { gained_s: 61.0, bound_s: 1.0 }],
        ),
        disruption_line(
            Kind::Pause,
            Some([5.275e9, 1.25e8]),
            None,
            vec![gap(LateCause::MachineStopped)],
        ),
        disruption_line(Kind::ClockSet, Some([-3e9, 31.0]), None, vec![Evidence::WasSet]),
        disruption_line(
            Kind::Migrated,
            None,
            None,
            vec![Evidence::PageRate { before_hz: 2_400_000_000, after_hz: 2_400_048_000 }],
        ),
        disruption_line(
            Kind::LongSteal,
            Some([7e8, 1e7]),
            None,
            vec![Evidence::Stolen { cpu: 1, stolen_ns: 700_000_000 }],
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    06:06:02.797  PAUSE       the host paused this machine for 5.000000 s ± 1.20 µs
                              the time of day is 5.000000 s ± 1.20 µs behind
                              - in an interval planned for 250 ms the TSC advanced
                              5.250 s, CLOCK_MONOTONIC_RAW 0.250 s
                              - the kvm-clock page stepped -5.000000 s; the host's
                              NTP explains at most 150.000 µs
    06:06:02.797  PAUSE       the host paused this machine for 61.0 ± 1.0 s
                              the time of day is 61.0 ± 1.0 s behind
                              - the RTC stepped +61.0 ± 1.0 s against CLOCK_BOOTTIME
    06:06:02.797  PAUSE       the host paused this machine for 5.3 ± 0.1 s
                              - no sample for 5.4 s instead of 250 ms: the machine
                              was stopped
    06:06:02.797  CLOCK SET   the time of day was set by -3.000000 s ± 31.0 ns
                              - the kernel reported that the time of day was set
    06:06:02.797  MIGRATED    this machine was migrated to another host
                              - the kvm-clock page advertises TSC 2400.000000 →
                              2400.048000 MHz (+20.000 ppm)
    06:06:02.797  LONG STEAL  the host stole CPU time: 0.70 ± 0.01 s
                              - CPU 1: 700 ms stolen since the last sample
    ");
}

#[test]
fn several_kinds_that_fit_are_all_named() {
    let texts = [
        disruption_line(
            Kinds::any_of(&[Kind::Migrated, Kind::SnapshotRestored]),
            None,
            None,
            vec![Evidence::VmClockMarker { before: 1, after: 2 }],
        ),
        disruption_line(
            Kinds::any_of(&[Kind::Pause, Kind::Migrated, Kind::SnapshotRestored]),
            Some([3.3e9, 1e9]),
            Some([3.3e9, 1e9]),
            vec![Evidence::Rtc { gained_s: 3.3, bound_s: 1.0 }],
        ),
        disruption_line(
            Kinds::any_of(&[Kind::Pause, Kind::Migrated, Kind::SnapshotRestored, Kind::RtcSet]),
            Some([2.3e9, 1e9]),
            Some([2.3e9, 1e9]),
            vec![Evidence::Rtc { gained_s: 2.3, bound_s: 1.0 }],
        ),
        disruption_line(
            Kinds::any_of(&[Kind::Suspend, Kind::Migrated, Kind::SnapshotRestored]),
            Some([6e9, 1e9]),
            None,
            vec![],
        ),
        disruption_line(
            Kinds::any_of(&[Kind::Pause, Kind::LongSteal]),
            Some([4e9, 1.25e8]),
            None,
            vec![gap(LateCause::StolenOrStopped)],
        ),
        disruption_line(Kind::LeapSecond, Some([-1e9, 30.0]), None, vec![]),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    06:06:02.797  DISRUPTED   this machine was restored from a snapshot or migrated
                              to another host
                              - VMClock: disruption marker 1 → 2
    06:06:02.797  STOPPED     this machine was stopped for 3.3 ± 1.0 s: paused,
                              restored from a snapshot or migrated to another host
                              the time of day is 3.3 ± 1.0 s behind
                              - the RTC stepped +3.3 ± 1.0 s against CLOCK_BOOTTIME
    06:06:02.797  RTC STEP    this machine was stopped for 2.3 ± 1.0 s (paused,
                              restored from a snapshot or migrated to another host),
                              or its RTC was set
                              if it was stopped, the time of day is 2.3 ± 1.0 s
                              behind
                              - the RTC stepped +2.3 ± 1.0 s against CLOCK_BOOTTIME
    06:06:02.797  SUSPEND     the machine was suspended for 6.0 ± 1.0 s, by a
                              request inside it or by its host for a restore or
                              migration
    06:06:02.797  STOPPED     nothing on this machine ran for 4.0 ± 0.1 s: the host
                              paused it or ran other guests (steal)
                              - no sample for 5.4 s instead of 250 ms: the host gave
                              the CPU to other guests (steal) or stopped the machine
    06:06:02.797  LEAP SECOND a leap second passed
    ");
}
