//! The scale against exact arithmetic, over its whole range.

use proptest::prelude::*;
use pvclock::hyperv::{ReferenceInfo, ReferencePage, ReferenceReader, ReferenceScale};
use pvclock::shared::Aligned;
use pvclock::{Hertz, Nanos, Scale, ScaleError};

/// Frequencies spread evenly over the orders of magnitude, ends included.
fn frequency() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_000u64..=1 << 40,
        (10u32..=40)
            .prop_flat_map(|bits| (1u64 << bits).max(1_000) / 2..=1 << bits)
            .prop_map(|hz| hz.max(1_000)),
        prop::sample::select(vec![
            1_000,
            999_999_999,
            1_000_000_000,
            1_000_000_001,
            1_999_999_999,
            2_000_000_000,
            2_000_000_001,
            2_445_428_000,
            3_400_109_000,
            3_478_274_491,
            1 << 32,
            (1 << 32) - 1,
            (1 << 40) - 1,
            1 << 40,
        ]),
    ]
}

/// Durations in cycles, up to 2^63.
fn cycles() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..=1 << 63,
        (0u32..=63).prop_flat_map(|bits| 0u64..=1 << bits),
        prop::sample::select(vec![0, 1, u64::from(u32::MAX), 1 << 32, (1 << 63) - 1, 1 << 63]),
    ]
}

proptest! {
    #![proptest_config(crate::common::cases(20_000))]

    /// `0 ≤ exact − computed < exact · 2^−31 + 2 ns`, all terms multiplied by
    /// `hz · 2^31` so that nothing is rounded here.
    #[test]
    fn error_is_as_stated(hz in frequency(), cycles in cycles()) {
        let scale = Scale::from_hertz(Hertz(hz)).unwrap();
        let exact_times_hz = u128::from(cycles) * 1_000_000_000;
        let Some(Nanos(computed)) = scale.nanos(cycles) else {
            prop_assert!(exact_times_hz / u128::from(hz) > u128::from(u64::MAX), "no result");
            return Ok(());
        };
        let computed_times_hz = u128::from(computed) * u128::from(hz);
        prop_assert!(computed_times_hz <= exact_times_hz, "ahead of the truth");
        let behind = exact_times_hz - computed_times_hz;
        // behind < exact·2^−31 + 2·hz, both sides times 2^31 would pass 128
        // bits for the longest durations: compare the parts instead.
        let bound = (exact_times_hz >> 31) + 2 * u128::from(hz) + 1;
        prop_assert!(behind < bound, "{behind} not below {bound}");
    }

    #[test]
    fn mul_keeps_all_its_bits(hz in frequency()) {
        prop_assert!(Scale::from_hertz(Hertz(hz)).unwrap().mul() >= 1 << 31);
    }

    #[test]
    fn frequency_comes_back(hz in frequency()) {
        let back = Scale::from_hertz(Hertz(hz)).unwrap().to_hertz().unwrap().0;
        prop_assert!(back.abs_diff(hz) <= (hz >> 31) + 1, "{hz} came back as {back}");
    }

    /// Any mul and shift that a foreign page may hold, against the formula in
    /// the widest arithmetic there is.
    #[test]
    fn foreign_scales_follow_the_formula_or_refuse(
        mul in any::<u32>(), shift in any::<i8>(), cycles in any::<u64>(),
    ) {
        let scale = Scale::from_parts(mul, shift);
        let shifted = if shift < 0 {
            Some(u128::from(cycles).checked_shr(u32::from(shift.unsigned_abs())).unwrap_or(0))
        } else {
            let left = u32::from(shift.unsigned_abs());
            (cycles == 0 || left + 64 - cycles.leading_zeros() <= 128)
                .then(|| u128::from(cycles).checked_shl(left).unwrap_or(0))
        };
        let expected = if mul == 0 {
            Some(0)
        } else {
            shifted.and_then(|s| s.checked_mul(u128::from(mul))).map(|product| product >> 32)
        };
        let expected = expected.and_then(|nanos| u64::try_from(nanos).ok()).map(Nanos);
        prop_assert_eq!(scale.nanos(cycles), expected);
        // No panic, whatever it is.
        let _ = scale.to_hertz();
    }

    /// Hyper-V's page: behind by less than `cycles · 2^−64 + 1` units.
    #[test]
    fn hyperv_error_is_as_stated(hz in (1u64 << 24)..=1 << 40, cycles in any::<u64>()) {
        let scale = ReferenceScale::from_hertz(Hertz(hz)).unwrap();
        let info = ReferenceInfo { sequence: 1, scale, offset_100ns: 0 };
        let page = ReferencePage::<Aligned>::from_info(&info);
        let units = ReferenceReader::new(&page).units_100ns(&|| cycles).unwrap();
        let exact_times_hz = u128::from(cycles) * 10_000_000;
        let computed_times_hz = u128::from(units) * u128::from(hz);
        prop_assert!(computed_times_hz <= exact_times_hz);
        prop_assert!(exact_times_hz - computed_times_hz < 2 * u128::from(hz));
        prop_assert!(scale.to_hertz().unwrap().0.abs_diff(hz) <= 1);
    }
}

#[test]
fn real_machines() {
    // mul and shift as running kernels were seen to write them.
    for (hz, mul, shift) in [(2_600_000_000, 0xc4ec_4ec4, -1), (2_445_428_000, 0xd15e_cc24, -1)] {
        let scale = Scale::from_hertz(Hertz(hz)).unwrap();
        assert_eq!((scale.mul(), scale.shift()), (mul, shift), "{hz} Hz: {:#x}", scale.mul());
    }
}

#[test]
fn frequencies_out_of_range_are_refused() {
    for hz in [0, 1, 999, (1 << 40) + 1, u64::MAX] {
        let refused = ScaleError {
            frequency: Hertz(hz),
            min: Scale::MIN_FREQUENCY,
            max: Scale::MAX_FREQUENCY,
        };
        assert_eq!(Scale::from_hertz(Hertz(hz)), Err(refused));
        assert_eq!(
            refused.to_string(),
            format!("no scale for {hz} Hz: it must be from 1000 Hz to 1099511627776 Hz")
        );
    }
    assert!(ReferenceScale::from_hertz(Hertz(10_000_000)).is_err());
    assert!(ReferenceScale::from_hertz(Hertz(10_000_001)).is_ok());
}

#[test]
fn hyperv_scale_of_a_real_machine_is_exact() {
    // 2^64 · 10^7 / 2.6·10^9, truncated; by hand: 2^64 / 260.
    let scale = ReferenceScale::from_hertz(Hertz(2_600_000_000)).unwrap();
    assert_eq!(scale.raw(), 70_949_015_668_113_660);
    assert_eq!(u128::from(scale.raw()), (1u128 << 64) / 260);
}
