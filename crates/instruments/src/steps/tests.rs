mod simulated;

use proptest::prelude::*;

use super::*;
use simulated::Reader;

const LOOK_NS: u64 = 100_000_000;
const SAMPLES: u64 = 150;
/// Where the clocks are made to move: after some seconds of learning.
const AT_SAMPLE: u64 = 80;

/// 2.4 GHz, `ppm` off.
fn tsc(ppm: f64) -> impl Fn(u64) -> u64 {
    move |ns| (ns as f64 * 2.4 * (1.0 + ppm * 1e-6)) as u64
}

/// A clock that shows ns in steps of `step`.
fn in_steps_of(step: u64) -> impl Fn(u64) -> u64 {
    move |ns| ns / step * step
}

#[test]
fn the_first_bracket_good_enough_is_taken_and_backward_ones_are_not() {
    let mut widths = [50i64, -5, 30, 10, 1].into_iter();
    let mut take = || {
        let after = 1000u64.wrapping_add_signed(widths.next()?);
        Some(Bracket { before: 1000, inner: 0, after })
    };
    assert_eq!(Bracket::tightest(3, 40, &mut take).unwrap().after, 1030);
    assert_eq!(Bracket::tightest(2, 0, &mut take).unwrap().after, 1001);
    assert_eq!(Bracket::tightest(2, 0, take), None);
    assert_eq!(Bracket::tightest(2, 9, || Some(Bracket { before: 2, inner: 0, after: 1 })), None);
}

#[test]
fn a_clock_that_went_back_with_its_bracket_is_a_step_of_that_size() {
    let mut track = LearntRate::new(1.0);
    let at = |s: u64| Bracket {
        before: s * 2_400_000_000,
        inner: s * 1_000_000_000,
        after: s * 2_400_000_000 + 100,
    };
    assert_eq!(track.observe(at(1000), 0), []);
    assert_eq!(track.observe(at(1001), 1), []);
    // The TSC starts again at 0, as in a machine restored without it.
    let restored = |s: u64| Bracket { inner: (s + 1001) * 1_000_000_000, ..at(s) };
    assert_eq!(track.observe(restored(1), 2), []);
    let found = track.observe(restored(2), 3);
    let [RateMove::Step { at_ns: 2, step }] = found[..] else { panic!("{found:?}") };
    assert!((step.middle() - 1001e9).abs() <= step.bound(), "{step:?}");
    // The wander allowed over the 1000 s that the TSC went back.
    assert!(step.bound() < 1.1e6, "{step:?}");
}

#[test]
fn what_no_later_sample_explains_is_reported_at_the_end() {
    let mut track = LearntRate::new(1.0);
    let at = |s: u64, step: u64| Bracket {
        before: s * 2_000_000_000,
        inner: s * 1_000_000_000 + step,
        after: s * 2_000_000_000 + 100,
    };
    track.observe(at(1, 0), 0);
    track.observe(at(2, 0), 1);
    assert_eq!(track.observe(at(3, 10_000), 2), []);
    assert!(matches!(track.finish()[..], [RateMove::Step { at_ns: 2, .. }]));
    assert_eq!(track.finish(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However the reads are delayed, clocks that do not step do not step.
    #[test]
    fn delays_are_no_steps(seed: u64, one_in in 1u64..20, step in 1u64..300, ppm in -400.0..400.0) {
        let mut reader = Reader::new(seed, one_in);
        let (mut constant, mut slewed) = (ConstantOffset::new(), Slewed::new());
        let mut learnt = LearntRate::new(step as f64);
        let slow = |ns: u64| (ns as f64 * (1.0 + ppm * 1e-6)) as u64;
        for sample in 0..SAMPLES {
            let realtime = reader.bracket(|ns| 1_700_000_000_000_000_000 + ns, |ns| ns);
            prop_assert_eq!(constant.observe(realtime), None);
            let monotonic = reader.bracket(slow, |ns| ns);
            let rates = Rates::new(1.0 - 500e-6, 1.0 + 500e-6);
            prop_assert_eq!(slewed.observe(monotonic, rates), None);
            let raw = reader.bracket(in_steps_of(step), tsc(7.0));
            prop_assert_eq!(learnt.observe(raw, sample), []);
            reader.sleep(LOOK_NS);
        }
        prop_assert_eq!(learnt.finish(), []);
    }

    /// A wander within what is allowed is none either, over many windows.
    #[test]
    fn a_warming_crystal_is_no_step(seed: u64, ppm_a_minute in -5.0..5.0) {
        let mut reader = Reader::new(seed, 20);
        let mut learnt = LearntRate::new(1.0);
        let start = reader.now_ns;
        let warming = |ns: u64| {
            let s = (ns - start) as f64 * 1e-9;
            ((ns as f64 + ppm_a_minute * 1e3 * s * s / 120.0) * 2.4) as u64
        };
        for sample in 0..4 * SAMPLES {
            let raw = reader.bracket(|ns| ns, warming);
            prop_assert_eq!(learnt.observe(raw, sample), []);
            reader.sleep(LOOK_NS);
        }
        let learnt_hz = 1e9 / learnt.rates().unwrap().middle();
        prop_assert!((learnt_hz / 2.4e9 - 1.0).abs() < 50e-6);
    }

    /// A step of REALTIME is found at once, and its size lies in the bounds.
    #[test]
    fn a_step_between_clocks_of_one_rate_is_found(
        seed: u64,
        size in prop_oneof![-3_000_000_000i64..-200, 200i64..3_000_000_000],
    ) {
        let mut reader = Reader::new(seed, 1000);
        let mut constant = ConstantOffset::new();
        for sample in 0..SAMPLES {
            let offset = if sample < AT_SAMPLE { 0 } else { size };
            let clock = |ns: u64| (1_700_000_000_000_000_000 + ns).wrapping_add_signed(offset);
            let found = constant.observe(reader.bracket(clock, |ns| ns));
            prop_assert_eq!(found.is_some(), sample == AT_SAMPLE);
            if let Some(step) = found {
                prop_assert!(step.low <= size as f64 && size as f64 <= step.high, "{step:?}");
                prop_assert!(step.bound() <= 150.0, "{step:?}");
            }
            reader.sleep(LOOK_NS);
        }
    }

    /// A step of a slewed clock beyond what slewing explains.
    #[test]
    fn a_step_beyond_the_slew_is_found(
        seed: u64,
        ppm in -400.0..400.0,
        size in prop_oneof![-3_000_000_000i64..-400_000, 400_000i64..3_000_000_000],
    ) {
        let mut reader = Reader::new(seed, 1000);
        let mut slewed = Slewed::new();
        for sample in 0..SAMPLES {
            let offset = if sample < AT_SAMPLE { 0 } else { size };
            let clock = |ns: u64| ((ns as f64 * (1.0 + ppm * 1e-6)) as u64).wrapping_add_signed(offset);
            let rates = Rates::new(1.0 - 500e-6, 1.0 + 500e-6);
            let found = slewed.observe(reader.bracket(clock, |ns| ns), rates);
            prop_assert_eq!(found.is_some(), sample == AT_SAMPLE);
            if let Some(step) = found {
                prop_assert!(step.low <= size as f64 && size as f64 <= step.high, "{step:?}");
            }
            reader.sleep(LOOK_NS);
        }
    }

    /// Steps of the raw clock against the TSC, one or two in a row, are reported
    /// as steps, at the sample that showed them, and the rate stays what it was.
    #[test]
    fn steps_of_a_clock_of_learnt_rate_are_found(
        seed: u64,
        sizes in prop::collection::vec(
            prop_oneof![-1_000_000_000i64..-3000, 3000i64..1_000_000_000], 1..3),
        distance in 1u64..4,
    ) {
        let mut reader = Reader::new(seed, 1000);
        let mut learnt = LearntRate::new(1.0);
        let mut found = Vec::new();
        for sample in 0..SAMPLES {
            let happened = (0u64..).zip(&sizes).filter(|(i, _)| sample >= AT_SAMPLE + i * distance);
            let offset: i64 = happened.map(|(_, size)| size).sum();
            let raw = reader.bracket(|ns| ns.wrapping_add_signed(offset), tsc(-3.0));
            found.extend(learnt.observe(raw, sample));
            reader.sleep(LOOK_NS);
        }
        prop_assert_eq!(found.len(), sizes.len(), "{:?}", found);
        for ((i, size), found) in (0u64..).zip(sizes).zip(found) {
            let RateMove::Step { at_ns, step } = found else { panic!("{found:?}") };
            prop_assert_eq!(at_ns, AT_SAMPLE + i * distance);
            prop_assert!(step.low <= size as f64 && size as f64 <= step.high, "{size}: {step:?}");
        }
        let ppm = (1e9 / learnt.rates().unwrap().middle() / 2.4e9 - 1.0) * 1e6;
        prop_assert!((ppm + 3.0).abs() < 0.1, "{ppm} ppm");
    }

    /// A counter that runs at another rate is not reported as endless steps.
    #[test]
    fn a_new_rate_is_reported_once(
        seed: u64,
        ppm in prop_oneof![-200_000.0f64..-10.0, 10.0f64..200_000.0],
    ) {
        let mut reader = Reader::new(seed, 1_000_000);
        let mut learnt = LearntRate::new(1.0);
        let mut found = Vec::new();
        let mut changed_ns = u64::MAX;
        for sample in 0..SAMPLES {
            let migrated = |ns: u64| {
                let late = ns.saturating_sub(changed_ns) as f64 * ppm * 1e-6;
                ((ns as f64 + late) * 2.4) as u64
            };
            let raw = reader.bracket(|ns| ns, migrated);
            found.extend(learnt.observe(raw, sample));
            if sample == AT_SAMPLE {
                changed_ns = reader.now_ns;
            }
            reader.sleep(LOOK_NS);
        }
        let [RateMove::Rate { at_ns, before, after }] = found[..] else { panic!("{found:?}") };
        prop_assert_eq!(at_ns, AT_SAMPLE + 1);
        let change_ppm = (before / after - 1.0) * 1e6;
        prop_assert!((change_ppm - ppm).abs() < 2.0 + ppm.abs() * 1e-5, "{change_ppm} {ppm}");
    }
}
