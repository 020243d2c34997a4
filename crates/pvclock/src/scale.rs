//! Cycles to nanoseconds by a multiplication and a shift.
//!
//! Division is too slow for a clock, so the page carries the reciprocal of
//! the frequency as a 32-bit fraction `mul` and a power of two `shift`:
//!
//! ```text
//! ns = ((cycles · 2^shift) · mul) / 2^32
//! ```
//!
//! `shift` is chosen so that `mul` lies in 2^31 .. 2^32, where the fraction
//! keeps all its bits; that puts `hertz · 2^shift` in (10^9, 2·10^9].
//!
//! # Error
//!
//! All three steps truncate, so the result is never ahead of the truth:
//!
//! | step | loses less than |
//! | --- | --- |
//! | `mul` is cut to 32 bits | 2^−31 of the duration (0.47 ppb) |
//! | cycles shifted right (above 2 GHz) | 1 ns: 2^n cycles of more than n·10^9 a second |
//! | the product is cut to whole ns | 1 ns |
//!
//! so `0 ≤ exact − computed < exact · 2^−31 + 2 ns`, which the tests hold
//! against exact arithmetic over the whole range.
//!
//! KVM (`kvm_get_time_scale`, arch/x86/kvm/x86.c) halves the frequency in
//! integers before it divides, and so may end up to 1 ppb fast above 2 GHz;
//! for frequencies of whole megahertz both give the same bits.

use crate::{Hertz, Nanos, ScaleError};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A rate in fixed point: nanoseconds for cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scale {
    mul: u32,
    shift: i8,
}

impl Scale {
    /// The slowest counter that [`Scale::from_hertz`] takes.
    pub const MIN_FREQUENCY: Hertz = Hertz(1_000);
    /// The fastest.
    pub const MAX_FREQUENCY: Hertz = Hertz(1 << 40);

    /// The scale of a counter that runs at `frequency`.
    ///
    /// # Errors
    /// Outside 1 kHz to 2^40 Hz.
    ///
    /// ```
    /// use pvclock::{Hertz, Scale};
    /// let scale = Scale::from_hertz(Hertz(2_600_000_000))?;
    /// assert_eq!((scale.mul(), scale.shift()), (0xc4ec_4ec4, -1));
    /// # Ok::<(), pvclock::ScaleError>(())
    /// ```
    pub const fn from_hertz(frequency: Hertz) -> Result<Self, ScaleError> {
        let hz = frequency.0;
        if hz < Self::MIN_FREQUENCY.0 || hz > Self::MAX_FREQUENCY.0 {
            return Err(ScaleError {
                frequency,
                min: Self::MIN_FREQUENCY,
                max: Self::MAX_FREQUENCY,
            });
        }
        let mut shift = 0;
        while (hz as u128) > (2 * NANOS_PER_SECOND) << -shift {
            shift -= 1;
        }
        while (hz as u128) << (if shift > 0 { shift } else { 0 }) <= NANOS_PER_SECOND {
            shift += 1;
        }
        // 2^32 · 10^9 / (hz · 2^shift); shift is at most 20, at 1 kHz.
        let mul = (NANOS_PER_SECOND << (32 - shift)) / hz as u128;
        Ok(Self { mul: mul as u32, shift: shift as i8 })
    }

    /// The scale a page holds, whatever that is.
    pub const fn from_parts(mul: u32, shift: i8) -> Self {
        Self { mul, shift }
    }

    /// The 32-bit fraction.
    pub const fn mul(self) -> u32 {
        self.mul
    }

    /// The power of two that cycles are multiplied by first.
    pub const fn shift(self) -> i8 {
        self.shift
    }

    /// The frequency this scale stands for, to the nearest hertz; `None` where
    /// it stands for none (`mul` 0) or one beyond 64 bits.
    ///
    /// For a scale from [`Scale::from_hertz`] it is within
    /// `hertz · 2^−31 + 1` of what was given.
    ///
    /// ```
    /// use pvclock::{Hertz, Scale};
    /// assert_eq!(Scale::from_parts(0xc4ec_4ec4, -1).to_hertz(), Some(Hertz(2_600_000_001)));
    /// ```
    pub const fn to_hertz(self) -> Option<Hertz> {
        if self.mul == 0 || self.shift < -32 || self.shift > 62 {
            return None;
        }
        // 10^9 · 2^(32 − shift) / mul, below 2^94 by the bounds on shift.
        let (numerator, divisor) = if self.shift <= 0 {
            (NANOS_PER_SECOND << (32 - self.shift), self.mul as u128)
        } else {
            (NANOS_PER_SECOND << 32, (self.mul as u128) << self.shift)
        };
        let hz = (numerator + divisor / 2) / divisor;
        if hz > u64::MAX as u128 { None } else { Some(Hertz(hz as u64)) }
    }

    /// Nanoseconds for `cycles`, or `None` beyond 64 bits.
    ///
    /// ```
    /// use pvclock::{Hertz, Nanos, Scale};
    /// let scale = Scale::from_hertz(Hertz(1_000_000))?;
    /// assert_eq!(scale.nanos(7), Some(Nanos(7_000)));
    /// assert_eq!(scale.nanos(u64::MAX), None);
    /// # Ok::<(), pvclock::ScaleError>(())
    /// ```
    #[inline]
    pub const fn nanos(self, cycles: u64) -> Option<Nanos> {
        match self.nanos_of_fast_counter(cycles) {
            Some(nanos) => Some(nanos),
            None => self.nanos_of_slow_counter(cycles),
        }
    }

    /// [`Scale::nanos`] for every counter above 1 GHz, where no step can
    /// overflow: what a hot path needs. `None` for other shifts.
    #[inline(always)]
    pub(crate) const fn nanos_of_fast_counter(self, cycles: u64) -> Option<Nanos> {
        let right = self.shift.wrapping_neg() as u8;
        if right >= 64 {
            return None;
        }
        // mul in the high half: the upper word of the product is the result,
        // and no shift follows the multiplication.
        let product = (cycles >> right) as u128 * ((self.mul as u64) << 32) as u128;
        Some(Nanos((product >> 64) as u64))
    }

    /// [`Scale::nanos`] for a left shift, and for shifts that only a foreign
    /// page can hold.
    const fn nanos_of_slow_counter(self, cycles: u64) -> Option<Nanos> {
        if cycles == 0 || self.mul == 0 || self.shift <= -64 {
            return Some(Nanos(0));
        }
        // cycles · 2^shift must leave 32 bits for mul.
        if self.shift as u32 + (u64::BITS - cycles.leading_zeros()) > 96 {
            return None;
        }
        let product = ((cycles as u128) << self.shift) * self.mul as u128;
        let nanos = product >> 32;
        if nanos > u64::MAX as u128 { None } else { Some(Nanos(nanos as u64)) }
    }
}
