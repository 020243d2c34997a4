use super::super::tests::simulated::{Jitter, SimulatedServer};
use super::super::{DriftReading, Nesting, Span};
use super::*;

const MS: f64 = 1e6;

fn drift(readings: Vec<DriftReading>) -> Drift {
    let mut series = Series::new();
    for reading in readings {
        series.push(reading).unwrap();
    }
    series.finish();
    series.drift().unwrap()
}

fn ppm(drift: &Drift) -> f64 {
    drift.frequency.unwrap().ppm
}

/// The bar: 60 s, 1 ms of jitter, 50 ppm found within 1 ppm, whatever the
/// jitter's form and the seed; and the interval holds the truth as often as claimed.
#[test]
fn fifty_ppm_are_found_within_one_in_a_minute_of_jitter() {
    for jitter in [Jitter::Uniform(MS), Jitter::Exponential(MS), Jitter::HalfNormal(MS)] {
        let server = SimulatedServer::new(50.0, jitter);
        let truth = (1.0 / (1.0 + 50e-6) - 1.0) * 1e6;
        let (mut worst, mut held) = (0.0f64, 0);
        let seeds = 400;
        for seed in 0..seeds {
            let drift = drift(server.poll(seed, 0.1, 60.0));
            assert!(drift.steps.is_empty() && drift.rate_changes.is_empty(), "{drift:?}");
            worst = worst.max((ppm(&drift) - truth).abs());
            let (low, high) = drift.frequency.unwrap().interval_ppm.unwrap();
            held += u32::from(low <= truth && truth <= high);
        }
        // Shown with --nocapture: the guide has these figures.
        println!("{jitter:?}: within {worst:.2} ppm; the interval held in {held} of {seeds}");
        assert!(worst < 1.0, "{jitter:?}: {worst}");
        // 95 % are 380; a fair interval has fewer than 360 once in 10^5 runs.
        assert!(held >= 360, "{jitter:?}: {held}");
    }
}

#[test]
fn a_step_is_found_sized_and_cut_out() {
    for step in [-30.0 * MS, 30.0 * MS] {
        let at = 20e9;
        let server = SimulatedServer {
            step: Some((step, at)),
            ..SimulatedServer::new(50.0, Jitter::Exponential(MS))
        };
        let drift = drift(server.poll(7, 0.1, 60.0));
        let [found] = drift.steps[..] else { panic!("{:?}", drift.steps) };
        // The reference forward is the clock back.
        assert!((found.ns + step).abs() <= found.bound_ns, "{found:?}");
        assert!((found.at_s - 20.0).abs() < 0.2, "{found:?}");
        assert!((ppm(&drift) + 50.0).abs() < 2.0, "{drift:?}");
        assert!((drift.offset.moved_ns + step + 3e6).abs() < 0.3 * MS, "{:?}", drift.offset);
    }
}

/// The clock is set while a reply is in flight: that reading is as wide as
/// the step, and fits what was before it and what comes after.
#[test]
fn a_step_in_the_middle_of_a_reading_is_found() {
    for step in [2_000_000, 8_000_000, 60_000_000] {
        let mut readings =
            SimulatedServer::new(50.0, Jitter::Exponential(0.3 * MS)).poll(7, 0.1, 60.0);
        readings[250].clock.after += step;
        for reading in &mut readings[251..] {
            reading.clock.before += step;
            reading.clock.after += step;
        }
        let drift = drift(readings);
        let [found] = drift.steps[..] else { panic!("{step}: {:?}", drift.steps) };
        assert!((found.ns - step as f64).abs() <= found.bound_ns, "{found:?}");
        assert!((ppm(&drift) + 50.0).abs() < 2.0, "{step}: {drift:?}");
    }
}

#[test]
fn loss_is_no_harm_and_the_offset_is_within_its_bound() {
    let server =
        SimulatedServer { loss: 0.4, ..SimulatedServer::new(-20.0, Jitter::Exponential(MS)) };
    let readings = server.poll(3, 0.1, 60.0);
    // Clock 5 s and reference 1.795e18 ns at the start; 20 ppm of 60 s since.
    let truth = 5e9 - 1_795e15 + 1.2 * MS;
    let drift = drift(readings);
    assert!((ppm(&drift) - 20.0).abs() < 1.5, "{drift:?}");
    assert!((drift.offset.ns - truth).abs() <= drift.offset.bound_ns, "{:?}", drift.offset);
    assert!(drift.offset.bound_ns < 0.5 * MS, "{:?}", drift.offset);
    assert!(drift.readings > 300 && drift.readings < 420 && drift.kept <= 24, "{drift:?}");
}

/// A clock with an advertised frequency 2 % off, as virtual machines have had.
#[test]
fn percents_are_found_as_well_as_millionths() {
    let drift = drift(SimulatedServer::new(-22_480.0, Jitter::Uniform(MS)).poll(1, 1.0, 60.0));
    let truth = (1.0 / (1.0 - 0.02248) - 1.0) * 1e6;
    assert!((ppm(&drift) - truth).abs() < 10.0, "{}: {truth}", ppm(&drift));
}

#[test]
fn a_change_of_frequency_is_reported_and_the_new_one_measured() {
    // No network: reads of another clock, with a bracket of 50 ns.
    let mut series = Series::new();
    for second in 0..60u64 {
        let reference = 7_000_000_000 + second * 1_000_000_000;
        let gained = if second < 20 { second * 10_000 } else { 200_000 + (second - 20) * 90_000 };
        let clock = Span::instant(reference + 25 + gained);
        let reference = Span { before: reference, after: reference + 50 };
        series.push(DriftReading { clock, reference, nesting: Nesting::ReferenceOutside }).unwrap();
    }
    series.finish();
    let drift = series.drift().unwrap();
    let [change] = drift.rate_changes[..] else { panic!("{drift:?}") };
    assert!((change.before_ppm - 10.0).abs() < 0.1, "{change:?}");
    assert!((change.after_ppm - 90.0).abs() < 0.1, "{change:?}");
    assert!((ppm(&drift) - 90.0).abs() < 0.01, "{drift:?}");
    assert_eq!(drift.steps, []);
}

#[test]
fn what_bounds_nothing_is_refused() {
    let mut series = Series::new();
    let reading = |clock: (u64, u64), reference: (u64, u64)| DriftReading {
        clock: Span { before: clock.0, after: clock.1 },
        reference: Span { before: reference.0, after: reference.1 },
        nesting: Nesting::ClockOutside,
    };
    assert_eq!(series.drift(), None);
    series.push(reading((100, 200), (1040, 1050))).unwrap();
    let back = series.push(reading((300, 250), (1240, 1245)));
    assert_eq!(back, Err(Refused::WentBack { by_ns: 55 }));
    let drift = series.drift().unwrap();
    assert_eq!((drift.readings, drift.frequency), (1, None));
    assert_eq!(drift.offset.bound_ns, 45.0);
    for at in 1..6 {
        series
            .push(reading((100 + at * 1000, 200 + at * 1000), (1040 + at * 1000, 1050 + at * 1000)))
            .unwrap();
    }
    // One or two wrong answers are dropped, a reference that was set back is not.
    let before: Vec<_> = (0..3).map(|_| series.push(reading((9_000, 9_100), (40, 50)))).collect();
    assert_eq!(before, [Ok(()), Ok(()), Err(Refused::BeforeStart { by_ns: 1000 })]);
    assert_eq!(series.drift().unwrap().outliers, 2);
}

/// Two readings of a stopwatch by a person: the interval is what 0.2 s at
/// either end make of 300 s.
#[test]
fn two_readings_have_the_interval_of_their_bounds() {
    let mut series = Series::new();
    for (clock, reference) in [(7_000_000_000, 1_000_000_000), (300_000_000_000, 301_000_000_000)] {
        let reference = Span { before: reference - 200_000_000, after: reference + 200_000_000 };
        let clock = Span::instant(clock);
        series.push(DriftReading { clock, reference, nesting: Nesting::ReferenceOutside }).unwrap();
    }
    let frequency = series.drift().unwrap().frequency.unwrap();
    let (low, high) = frequency.interval_ppm.unwrap();
    assert!((frequency.in_300_s - -7.0).abs() < 1e-6, "{frequency:?}");
    assert!((high - low - 2.0 * 0.4 / 300.0 * 1e6).abs() < 0.01, "{frequency:?}");
}

/// One reply that took 800 ms would dominate the deviation.
#[test]
fn a_late_reading_does_not_spoil_the_stability() {
    let mut readings = SimulatedServer::new(50.0, Jitter::Uniform(MS)).poll(1, 0.1, 60.0);
    let calm = drift(readings.clone());
    readings[300].clock.after += 800_000_000;
    let spoilt = drift(readings);
    for (one, other) in calm.allan.iter().zip(&spoilt.allan) {
        assert!((one.deviation / other.deviation - 1.0).abs() < 0.1, "{one:?} {other:?}");
    }
    assert!((ppm(&calm) - ppm(&spoilt)).abs() < 0.1);
}
