//! chronyd's floating-point format.

/// A number as chronyd transmits it: 7 bits of exponent *e* and 25 bits of
/// coefficient *c*, both in two's complement, for *c · 2^(e − 25)*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Float(pub u32);

impl Float {
    const fn exponent(self) -> i32 {
        (self.0.cast_signed() >> 25) - 25
    }

    const fn coefficient(self) -> i32 {
        (self.0 << 7).cast_signed() >> 7
    }

    /// Its exact value.
    #[allow(clippy::cast_sign_loss, reason = "the biased exponent is from 934 to 1061")]
    pub fn value(self) -> f64 {
        let power = f64::from_bits(((1023 + self.exponent()) as u64) << 52);
        f64::from(self.coefficient()) * power
    }

    /// Its absolute value in billionths, rounded up; `u64::MAX` where that is
    /// too small for it.
    pub fn abs_billionths(self) -> u64 {
        // Less than 2^55, shifted left by 38 at most.
        let billionths = u128::from(self.coefficient().unsigned_abs()) * 1_000_000_000;
        let shift = self.exponent().unsigned_abs();
        let scaled =
            if self.exponent() < 0 { billionths.div_ceil(1 << shift) } else { billionths << shift };
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_rounded_up_and_saturate() {
        let billionths = |number| Float(number).abs_billionths();
        // 1 · 2^(1 − 25), which is 59.6 billionths; the same below 0; 2^-63 / 2.
        assert_eq!(billionths(1 << 25 | 1), 60);
        assert_eq!(billionths(1 << 25 | 0x1ff_ffff), 60);
        assert_eq!(billionths(64 << 25 | 1), 1);
        assert_eq!(billionths(0), 0);
        // 2^24 · 2^(63 − 25).
        assert_eq!(billionths(63 << 25 | 0x100_0000), u64::MAX);
        // 1: 2^23 · 2^(2 − 25).
        assert_eq!(billionths(2 << 25 | 0x80_0000), 1_000_000_000);
        assert_eq!(Float(2 << 25 | 0x80_0000).value().to_bits(), 1f64.to_bits());
        assert_eq!(Float(2 << 25 | 0x180_0000).value().to_bits(), (-1f64).to_bits());
    }

    proptest! {
        #[test]
        fn the_value_is_what_powers_of_two_make_of_it(number in any::<u32>()) {
            let exponent = (number.cast_signed() >> 25) - 25;
            let coefficient = (number << 7).cast_signed() >> 7;
            let mut value = f64::from(coefficient);
            for _ in 0..exponent.unsigned_abs() {
                value = if exponent < 0 { value / 2.0 } else { value * 2.0 };
            }
            prop_assert_eq!(Float(number).value().to_bits(), value.to_bits());
            let billionths = Float(number).abs_billionths() as f64;
            let expected = value.abs() * 1e9;
            if billionths < 1e18 {
                prop_assert!(billionths >= expected * (1.0 - 1e-12));
                prop_assert!(billionths <= expected * (1.0 + 1e-12) + 1.0);
            } else {
                prop_assert!(expected > 0.9e18);
            }
        }
    }
}
