//! How fast a clock should run, and whether it does.

use guest::discovery::{Discovery, FrequencyOrigin};
use guest::source::Source;
use instruments::measurements::TscRate;
use instruments::rate::{ReadingPair, rate};
use pvclock::Nanos;

use crate::results::Verdict;

/// How far a clock's drift may be from theory, in addition to the uncertainty of its own
/// readings. Theory has the host's TSC by the host's clock of the same seconds, so neither the
/// host's oscillator nor NTP needs a margin; a slew that NTP changes meanwhile does, and the
/// TSC is sampled at the ends alone.
pub(super) const TOLERANCE_PPM: f64 = 5.0;

/// An uncertainty above this shows nothing that is worth a pass.
pub(super) const UNCERTAIN_PPM: f64 = 200.0;

/// Of readings this certain the longest run is chosen, not the most certain.
const CERTAIN_PPM: f64 = 5.0;

const PPM: f64 = 1e6;

/// How much too fast a clock runs if the advertised TSC frequency is
/// `advertised_over_true` times the true one, by which the guest converts cycles
/// to time. Clocks that are not made from the TSC are unaffected.
pub(crate) fn drift_ppm(
    source: Source,
    frequency_from: FrequencyOrigin,
    advertised_over_true: f64,
) -> f64 {
    // By the advertised frequency, or its own measurement.
    let is_measured = source == Source::Tsc
        && matches!(frequency_from, FrequencyOrigin::Measured | FrequencyOrigin::Unknown);
    let is_scaled = is_by_tsc(source) && !is_measured;
    if is_scaled { (1.0 / advertised_over_true - 1.0) * PPM } else { 0.0 }
}

/// Whether a clock is made from the TSC.
pub(super) const fn is_by_tsc(source: Source) -> bool {
    match source {
        Source::Tsc | Source::KvmClock | Source::HyperVPage => true,
        // The host computes it from the page, while that is valid (KVM does:
        // get_time_ref_counter, arch/x86/kvm/hyperv.c).
        Source::HyperVCounter => true,
        Source::AcpiPm | Source::Hpet | Source::Rtc => false,
    }
}

/// How far a clock may be off because the guest measured its TSC's frequency
/// itself.
pub(super) fn frequency_bound_ppm(source: Source, guest: &Discovery) -> f64 {
    if source == Source::Tsc { guest.tsc_bound.0 as f64 / guest.tsc.0 as f64 * PPM } else { 0.0 }
}

/// The smallest step of a source, ns, rounded up: how late a reading may be.
pub(super) const fn resolution_ns(source: Source) -> u64 {
    match source {
        Source::Tsc | Source::KvmClock => 1,
        Source::HyperVPage | Source::HyperVCounter => 100,
        Source::AcpiPm => 280,
        Source::Hpet => 10,
        // It is read when it steps.
        Source::Rtc => 1,
    }
}

/// A clock's rate against the host's, by two of its readings: the most distant
/// tight ones, or else those with the smallest bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeasuredDrift {
    pub(super) first: ReadingPair,
    pub(super) last: ReadingPair,
    rate: TscRate,
}

impl MeasuredDrift {
    /// Nothing of fewer than two readings at different times. The choice depends
    /// on width and distance alone, so the result does not bias it.
    pub(super) fn from_readings(readings: &[ReadingPair], resolution_ns: u64) -> Option<Self> {
        let all = || {
            let pairs = readings.iter().enumerate().flat_map(|(index, first)| {
                readings[index + 1..].iter().map(move |last| (*first, *last))
            });
            pairs.filter_map(|(first, last)| {
                Some(Self { first, last, rate: rate(first, last, resolution_ns)? })
            })
        };
        let longest = all()
            .filter(|measured| measured.uncertainty_ppm() <= CERTAIN_PPM)
            .max_by(|a, b| a.host_s().total_cmp(&b.host_s()));
        longest.or_else(|| all().min_by(|a, b| a.uncertainty_ppm().total_cmp(&b.uncertainty_ppm())))
    }

    pub(super) fn drift_ppm(&self) -> f64 {
        // ns on the guest in a second of the host.
        (self.rate.hz / 1e9 - 1.0) * PPM
    }

    pub(super) fn uncertainty_ppm(&self) -> f64 {
        self.rate.bound_ppm
    }

    pub(super) fn host_s(&self) -> f64 {
        self.rate.over_s
    }

    pub(super) fn guest_s(&self) -> f64 {
        self.last.tsc.wrapping_sub(self.first.tsc) as f64 / 1e9
    }
}

/// What a clock of this drift counts in `host_s`, s.
pub(super) fn counted_s(host_s: f64, drift_ppm: f64) -> f64 {
    host_s * (1.0 + drift_ppm / PPM)
}

/// An error beyond uncertainty and tolerance fails; within, it passes unless the uncertainty is
/// above [`UNCERTAIN_PPM`]. `waited`: how long the vCPU waited for a CPU, if that is known.
pub(super) fn verdict(error_ppm: f64, uncertainty_ppm: f64, waited: Option<Nanos>) -> Verdict {
    let error_ppm = error_ppm.abs();
    if error_ppm > TOLERANCE_PPM + uncertainty_ppm {
        Verdict::Failed
    } else if uncertainty_ppm <= UNCERTAIN_PPM {
        Verdict::Passed
    } else {
        let waited = waited.map_or(String::new(), |waited| {
            let milliseconds = waited.0 / 1_000_000;
            format!("; the vCPU waited {milliseconds} ms for a CPU of the host")
        });
        Verdict::NotMeasured(format!(
            "the uncertainty, {uncertainty_ppm:.0} ppm, exceeds {UNCERTAIN_PPM} ppm{waited}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_virtualbox_5_0_makes_293_26_s_of_300() {
        let factor = 3_478_274_491.0 / 3_400_109_000.0;
        let drift = |source| drift_ppm(source, FrequencyOrigin::KvmClockPage, factor);
        for source in [Source::KvmClock, Source::Tsc, Source::HyperVPage] {
            assert_eq!(format!("{:.2}", counted_s(300.0, drift(source))), "293.26");
        }
        for source in [Source::AcpiPm, Source::Hpet, Source::Rtc] {
            assert_eq!(counted_s(300.0, drift(source)), 300.0);
        }
        // Nothing advertised its frequency.
        assert_eq!(drift_ppm(Source::Tsc, FrequencyOrigin::Measured, factor), 0.0);
    }

    fn pair(middle: u64, half: u64, guest: u64) -> ReadingPair {
        ReadingPair { before_ns: middle - half, tsc: guest, after_ns: middle + half }
    }

    /// 1000 ppm fast.
    fn fast(second: u64, half: u64) -> ReadingPair {
        pair(second * 1_000_000_000, half, second * 1_001_000_000)
    }

    #[test]
    fn the_most_distant_of_tight_readings_are_chosen() {
        // The first and the last one were interrupted.
        let readings = [
            fast(1, 900_000),
            fast(2, 2_500),
            fast(3, 1),
            fast(4, 1),
            fast(9, 2_500),
            fast(10, 5_000_000),
        ];
        let measured = MeasuredDrift::from_readings(&readings, 1).unwrap();
        assert_eq!((measured.first, measured.last), (readings[1], readings[4]));
        assert!((measured.drift_ppm() - 1000.0).abs() < 1e-6, "{measured:?}");
        assert_eq!((measured.host_s(), measured.guest_s()), (7.0, 7.007));
        assert!((0.7..0.8).contains(&measured.uncertainty_ppm()), "{measured:?}");
        assert_eq!(MeasuredDrift::from_readings(&readings[..1], 1), None);
    }

    #[test]
    fn without_tight_readings_the_smallest_bound_is_chosen() {
        let readings = [fast(1, 3_000_000), fast(2, 400_000), fast(3, 500_000), fast(4, 4_000_000)];
        let measured = MeasuredDrift::from_readings(&readings, 1).unwrap();
        assert_eq!((measured.first, measured.last), (readings[1], readings[2]));
    }

    #[test]
    fn an_uncertain_drift_neither_passes_nor_fails() {
        let waited = Some(Nanos(1_234_567_890));
        assert_eq!(verdict(-9.0, 5.0, waited), Verdict::Passed);
        assert_eq!(verdict(11.0, 5.0, waited), Verdict::Failed);
        assert_eq!(verdict(150.0, 5.0, waited), Verdict::Failed);
        assert_eq!(verdict(-256.0, 250.0, waited), Verdict::Failed);
        let why = |ms: &str| format!("the uncertainty, 250 ppm, exceeds 200 ppm{ms}");
        assert_eq!(verdict(1.0, 250.0, None), Verdict::NotMeasured(why("")));
        let waits = why("; the vCPU waited 1234 ms for a CPU of the host");
        assert_eq!(verdict(201.0, 250.0, waited), Verdict::NotMeasured(waits));
    }
}
