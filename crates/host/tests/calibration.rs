//! A rate measured against a reference: its bound holds, and what cannot be
//! measured is said.

mod common;

use common::{SECOND, at_rate, cases};
use host::{
    Calibration, CalibrationError, FrequencyFrom, Kind, LogEvent, Reading, Sample, Settings,
    calibrate,
};
use proptest::prelude::*;
use pvclock::{Hertz, Nanos, Ticks};

fn sample(reading: Reading, width: u64) -> Sample {
    Sample { reading, width: Nanos(width) }
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Samples of a true rate, each clock read up to its width late.
    #[test]
    fn the_true_rate_lies_within_the_bound(
        hz in 500_000_000u64..6_000_000_000,
        step in 1_000_000u64..100_000_000,
        noise in prop::collection::vec((50u64..400, 0u64..=100), 8..60),
    ) {
        let samples: Vec<_> = noise.iter().zip(1u64..).map(|(&(width, percent), index)| {
            let mut reading = at_rate(index * step, Hertz(hz));
            reading.boot.0 += width * percent / 100;
            sample(reading, width)
        }).collect();
        let Calibration { frequency, error, excess, .. } = calibrate(&samples).unwrap();
        prop_assert!(frequency.0.abs_diff(hz) <= error.0, "{frequency} ± {error}, truly {hz}");
        prop_assert_eq!(excess, Nanos(0));
    }

    #[test]
    fn any_samples_are_answered(
        raw in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
    ) {
        let samples: Vec<_> = raw.iter().map(|&(tsc, boot, width)| {
            sample(Reading { tsc: Ticks(tsc), boot: Nanos(boot), ..at_rate(0, Hertz(1)) }, width)
        }).collect();
        if let Ok(calibration) = calibrate(&samples) {
            prop_assert!(calibration.error < calibration.frequency);
            prop_assert_eq!(calibration.used + calibration.left_out, samples.len());
        }
    }
}

#[test]
fn a_preempted_sample_is_left_out_and_an_uneven_clock_is_told() {
    let rate = Hertz(2_000_000_000);
    let mut samples: Vec<_> =
        (0..20).map(|index| sample(at_rate(index * SECOND / 10, rate), 100)).collect();
    samples[19].reading.boot.0 += 3_000_000;
    samples[19].width = Nanos(3_000_000);
    let calibration = calibrate(&samples).unwrap();
    assert_eq!((calibration.frequency, calibration.left_out), (rate, 1));
    samples[10].reading.boot.0 += 50_000;
    let uneven = calibrate(&samples).unwrap();
    assert_eq!(uneven.excess, Nanos(50_000 - 301));
    assert_eq!(
        uneven.to_string(),
        "2000000000 Hz ± 55444 Hz (27.722 ppm) over 1800000000 ns by 19 samples, 1 more left out \
         as too wide; the clocks ran unevenly, by 49699 ns"
    );
}

#[test]
fn what_gives_no_rate_says_why() {
    let rate = Hertz(1_000_000_000);
    let few = CalibrationError::TooFew { used: 0, left_out: 0 };
    assert_eq!(calibrate(&[]), Err(few));
    let one = sample(at_rate(5, rate), 1);
    assert_eq!(calibrate(&[one]), Err(CalibrationError::TooFew { used: 1, left_out: 0 }));
    let still = CalibrationError::NoTime { from: Nanos(5), to: Nanos(5) };
    assert_eq!(calibrate(&[one, one]), Err(still));
    let mut back = sample(at_rate(9, rate), 1);
    back.reading.tsc = Ticks(2);
    let no_cycles = CalibrationError::NoCycles { from: 5, to: 2, span: Nanos(4) };
    assert_eq!(calibrate(&[one, back]), Err(no_cycles));
    let wide = sample(at_rate(9, rate), 4);
    let wide_too = sample(at_rate(5, rate), 4);
    assert!(matches!(calibrate(&[wide_too, wide]), Err(CalibrationError::Useless { .. })));
}

#[test]
fn a_calibrated_clock_logs_its_error() {
    let rate = Hertz(2_000_000_000);
    let samples: Vec<_> = (0..9).map(|n| sample(at_rate(n * SECOND, rate), 100)).collect();
    let settings = Settings::calibrated(Kind::Kvm, &calibrate(&samples).unwrap());
    let by = FrequencyFrom::Calibration { error: Hertz(51) };
    assert_eq!(
        (settings.host_tsc, settings.advertised_tsc, settings.frequency_from),
        (rate, rate, by)
    );
    let host = host::GuestClock::new(settings, at_rate(0, rate)).unwrap();
    let told = host.calibration_log().next().unwrap();
    assert_eq!(told.what, LogEvent::Told { told: rate, host: rate, by });
    assert!(told.to_string().contains("measured within ±51 Hz"), "{told}");
}
