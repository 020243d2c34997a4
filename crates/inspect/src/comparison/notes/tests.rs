use instruments::drift::budget::Budget;

use super::*;
use crate::comparison::tests::pair_of;

const HOST: &str = "phc /dev/ptp0";

/// Steps of both clocks, ms, half way through 60 s.
fn pairs(steps_ms: [i64; 2]) -> Vec<PairReport> {
    let clocks = [ClockName::Monotonic, ClockName::Raw];
    let pair = |(clock, step_ms): (ClockName, i64)| {
        let ahead_ns = |n| if n > 30 { step_ms * 1_000_000 } else { 0 };
        pair_of(clock, HOST, 60, ahead_ns).judged(Budget::default()).unwrap()
    };
    clocks.into_iter().zip(steps_ms).map(pair).collect()
}

/// Its disturbances; steps to the ms.
fn of(pairs: &[PairReport]) -> Vec<Note> {
    let mut notes = disturbances(&[], pairs);
    for note in &mut notes {
        let (Note::ReferenceStepped { by_ns, .. } | Note::ClockStepped { by_ns, .. }) = note else {
            continue;
        };
        *by_ns = (*by_ns / 1e6).round() * 1e6;
    }
    notes
}

fn stepped(clock: ClockName, by_ms: f64, or_reference: Option<&str>) -> Note {
    let or_reference = or_reference.map(str::to_owned);
    Note::ClockStepped { clock, by_ns: by_ms * 1e6, at_s: 30.0, or_reference }
}

#[test]
fn it_was_the_reference_where_all_clocks_step_by_the_same() {
    let reference = HOST.to_owned();
    assert_eq!(
        of(&pairs([7, 7])),
        [Note::ReferenceStepped { reference, clocks: 2, by_ns: -7e6, at_s: 30.0 }]
    );
    assert!(of(&pairs([7, 0])).is_empty() && of(&pairs([7, 90])).is_empty());
    assert_eq!(
        of(&pairs([7, 7])[..1]),
        [stepped(ClockName::Monotonic, 7.0, Some(HOST))],
        "one clock alone does not show it"
    );
    // Against two references it does.
    let twice = |step_ms| {
        let mut both = [pairs([step_ms, 0]), pairs([step_ms, 0])].map(|mut two| two.remove(0));
        both[1].reference = "ntp 192.0.2.1".into();
        of(&both)
    };
    assert!(twice(7).is_empty());
    assert_eq!(twice(-7), [stepped(ClockName::Monotonic, -7.0, None)]);
}

#[test]
fn a_clock_that_was_set_back_is_noted() {
    assert_eq!(of(&pairs([0, -9])), [stepped(ClockName::Raw, -9.0, None)]);
    let alone = stepped(ClockName::Monotonic, -9.0, Some(HOST));
    assert_eq!(of(&pairs([-9, 0])[..1]), [alone]);
    // Forward is a gap, and two different ways is neither together nor back.
    assert_eq!(of(&pairs([4, -4])), [stepped(ClockName::Raw, -4.0, None)]);
}

#[test]
fn a_run_of_seconds_is_too_short_for_an_rtc() {
    let notes = |clock, wide_ns: u64, count| {
        let mut pair = pair_of(clock, "raw", count, |_| 0).judged(Budget::default()).unwrap();
        let within_ppm = wide_ns as f64 / 1e3 / pair.drift.span_s;
        let frequency = pair.drift.frequency.as_mut().unwrap();
        frequency.interval_ppm = Some((-within_ppm, within_ppm));
        too_short(&[pair]).collect::<Vec<_>>()
    };
    // Seconds known to 0.1 ms, and on an emulated PC to 10 ms.
    assert_eq!(notes(ClockName::Rtc, 100_000, 6), []);
    let [Note::TooShort { needed_min, within_ppm, .. }] = notes(ClockName::Rtc, 30_000_000, 6)[..]
    else {
        panic!("no note")
    };
    assert_eq!((needed_min, within_ppm), (5, 6000.0), "30 ms of 300 s are 100 ppm");
    assert_eq!(notes(ClockName::Monotonic, 30_000_000, 6), []);
}
