use instruments::drift::Budget;

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

mod scale {
    use instruments::drift::Budget;

    use super::super::*;
    use crate::comparison::tests::pair_of;

    /// The notes on a minute of a clock that is ahead of a reference.
    fn of(clock: ClockName, reference: &str, ahead_s: i64, tai_s: i32) -> Option<Note> {
        let pair = pair_of(clock, reference, 60, |_| ahead_s * 1_000_000_000);
        let mut notes =
            scale_notes(&[pair.judged(Budget::default()).unwrap()], &Fact::Known(tai_s));
        assert!(notes.len() < 2, "{notes:?}");
        notes.pop()
    }

    fn seems(reference: &str, ahead_s: i64) -> Option<Seems> {
        match of(ClockName::Realtime, reference, ahead_s, 37)? {
            Note::ReferenceScale { reference: name, off_ns, seems } => {
                assert_eq!((name.as_str(), off_ns.round()), (reference, 37e9));
                Some(seems)
            }
            other => panic!("{other:?}"),
        }
    }

    fn unspecified(scale: PhcScale) -> Seems {
        Seems::UnspecifiedTai { device: "/dev/ptp1".into(), scale }
    }

    #[test]
    fn a_card_that_is_not_specified_may_count_tai() {
        let card = |ahead_s| seems("phc /dev/ptp1", ahead_s);
        assert_eq!(card(-37), Some(unspecified(PhcScale::Tai)));
        assert!(card(0).is_none() && card(-36).is_none());
        // Clocks that count from boot have any offset.
        assert_eq!(of(ClockName::Monotonic, "phc /dev/ptp1", -37, 37), None);
    }

    #[test]
    fn a_scale_that_was_specified_wrongly_is_noted() {
        assert_eq!(seems("phc /dev/ptp1 utc", -37), Some(Seems::Tai));
        assert_eq!(seems("phc /dev/ptp1 tai=37", 37), Some(Seems::Utc));
        for name in ["phc /dev/ptp1 utc", "phc /dev/ptp1 tai=37"] {
            assert_eq!(seems(name, 0), None);
        }
    }

    #[test]
    fn what_was_not_taken_for_tai_is_not_stated_to_have_been() {
        for name in ["phc /dev/ptp1", "phc /dev/ptp1 utc", "kvm /dev/ptp0"] {
            assert_eq!(seems(name, 37), Some(Seems::BehindUtc), "{name}");
        }
    }

    #[test]
    fn the_advice_is_a_number_where_the_kernel_was_not_set() {
        let note = of(ClockName::Realtime, "phc /dev/ptp1", -37, 0);
        let Some(Note::ReferenceScale { seems, .. }) = note else { panic!("{note:?}") };
        assert_eq!(seems, unspecified(PhcScale::TaiBy(37)));
    }

    #[test]
    fn a_card_that_is_measured_may_count_tai() {
        let card = |reference, ahead_s| of(ClockName::Phc, reference, ahead_s, 37);
        let note = card("ntp 192.0.2.1", 37);
        assert!(matches!(note, Some(Note::ClockScale { .. })), "{note:?}");
        let others = [("ntp 192.0.2.1", 1), ("raw", 37), ("phc /dev/ptp1", 37)];
        assert!(others.iter().all(|(reference, ahead_s)| card(reference, *ahead_s).is_none()));
    }
}
