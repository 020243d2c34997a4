//! How fast a clock ought to run, and whether it does.

use guest::discovery::FrequencyFrom;
use guest::source::Source;
use instruments::measurements::TscRate;
use instruments::rate::{Pair, rate};

use crate::results::Verdict;

/// How far a clock's drift may be from theory: the guest's own measurement of
/// its TSC, where nobody told it, is in it, and so is the host's other
/// oscillator where its clocksource is not the TSC (seldom over 50 ppm).
pub(super) const TOLERANCE_PPM: f64 = 200.0;

/// What readings may leave open and still be as good as any: then a longer
/// run is worth more than a more certain one.
const CERTAIN_PPM: f64 = TOLERANCE_PPM / 10.0;

const PPM: f64 = 1e6;

/// How much too fast it runs, where the guest was told `told_over_true` times
/// the TSC's true rate: cycles become time by the rate told. Counters of the
/// machine's own time do not care.
pub(crate) fn drift_ppm(source: Source, frequency_from: FrequencyFrom, told_over_true: f64) -> f64 {
    let by_rate_told = match source {
        Source::KvmClock | Source::HyperVPage => true,
        // The host computes it from the page, while that is good (KVM does:
        // get_time_ref_counter, arch/x86/kvm/hyperv.c).
        Source::HyperVCounter => true,
        // By the rate it was told, or else measured itself.
        Source::Tsc => !matches!(frequency_from, FrequencyFrom::Measured | FrequencyFrom::Unknown),
        Source::AcpiPm | Source::Hpet | Source::Pit | Source::Rtc => false,
    };
    if by_rate_told { (1.0 / told_over_true - 1.0) * PPM } else { 0.0 }
}

/// The smallest step of a source, ns, rounded up: a reading may be late by it.
pub(super) const fn resolution_ns(source: Source) -> u64 {
    match source {
        Source::Tsc | Source::KvmClock => 1,
        Source::HyperVPage | Source::HyperVCounter => 100,
        Source::AcpiPm => 280,
        Source::Hpet => 10,
        Source::Pit => 839,
        // Its reading is the moment at which it stepped.
        Source::Rtc => 1,
    }
}

/// A clock's rate against the host's, by two of its readings: the furthest
/// apart that are tight, or else those that bound it best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) first: Pair,
    pub(super) last: Pair,
    rate: TscRate,
}

impl Measured {
    /// Nothing of fewer than two readings apart. Chosen by width and distance
    /// alone, so the choice does not lean on what comes out.
    pub(super) fn of(readings: &[Pair], resolution_ns: u64) -> Option<Self> {
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
        // ns of the guest's in a second of the host's.
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

/// Readings that leave more open than the tolerance show nothing but a drift
/// that is beyond both.
pub(super) fn verdict(off_ppm: f64, uncertainty_ppm: f64) -> Verdict {
    let off_ppm = off_ppm.abs();
    if uncertainty_ppm <= TOLERANCE_PPM {
        Verdict::of(off_ppm <= TOLERANCE_PPM)
    } else if off_ppm > TOLERANCE_PPM + uncertainty_ppm {
        Verdict::Failed
    } else {
        Verdict::NotMeasured(format!("the readings leave {uncertainty_ppm:.0} ppm open"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_virtualbox_5_0_makes_293_26_s_of_300() {
        let factor = 3_478_274_491.0 / 3_400_109_000.0;
        let told = |source| drift_ppm(source, FrequencyFrom::KvmClockPage, factor);
        for source in [Source::KvmClock, Source::Tsc, Source::HyperVPage] {
            assert_eq!(format!("{:.2}", counted_s(300.0, told(source))), "293.26");
        }
        for source in [Source::AcpiPm, Source::Hpet, Source::Pit, Source::Rtc] {
            assert_eq!(counted_s(300.0, told(source)), 300.0);
        }
        // Nobody told this one.
        assert_eq!(drift_ppm(Source::Tsc, FrequencyFrom::Measured, factor), 0.0);
    }

    fn pair(middle: u64, half: u64, guest: u64) -> Pair {
        Pair { before_ns: middle - half, tsc: guest, after_ns: middle + half }
    }

    /// 1000 ppm fast.
    fn fast(second: u64, half: u64) -> Pair {
        pair(second * 1_000_000_000, half, second * 1_001_000_000)
    }

    #[test]
    fn the_furthest_of_tight_readings_are_taken() {
        // The first and the last one were interrupted.
        let readings = [
            fast(1, 900_000),
            fast(2, 10_000),
            fast(3, 1),
            fast(4, 1),
            fast(9, 10_000),
            fast(10, 5_000_000),
        ];
        let measured = Measured::of(&readings, 1).unwrap();
        assert_eq!((measured.first, measured.last), (readings[1], readings[4]));
        assert!((measured.drift_ppm() - 1000.0).abs() < 1e-6, "{measured:?}");
        assert_eq!((measured.host_s(), measured.guest_s()), (7.0, 7.007));
        assert!((2.8..2.9).contains(&measured.uncertainty_ppm()), "{measured:?}");
        assert_eq!(Measured::of(&readings[..1], 1), None);
    }

    #[test]
    fn without_tight_readings_the_least_open_ones_are() {
        let readings = [fast(1, 3_000_000), fast(2, 400_000), fast(3, 500_000), fast(4, 4_000_000)];
        let measured = Measured::of(&readings, 1).unwrap();
        assert_eq!((measured.first, measured.last), (readings[1], readings[2]));
    }

    #[test]
    fn what_is_open_is_neither_passed_nor_failed() {
        assert_eq!(verdict(-199.0, 5.0), Verdict::Passed);
        assert_eq!(verdict(201.0, 5.0), Verdict::Failed);
        assert!(matches!(verdict(201.0, 250.0), Verdict::NotMeasured(_)));
        assert!(matches!(verdict(1.0, 250.0), Verdict::NotMeasured(_)));
        assert_eq!(verdict(-451.0, 250.0), Verdict::Failed);
    }
}
