//! A counter's rate in fixed point.

use pvclock::Scale;

/// A counter's rate in fixed point: ns = ((cycles * 2^shift) * mul) / 2^32,
/// where a negative shift is a shift to the right.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockScale {
    /// The fraction; 2^31 or more in a scale made from a frequency.
    pub mul: u32,
    /// The power of two that cycles are multiplied by first.
    pub shift: i8,
}

impl From<Scale> for PvclockScale {
    fn from(scale: Scale) -> Self {
        Self { mul: scale.mul(), shift: scale.shift() }
    }
}

impl From<PvclockScale> for Scale {
    fn from(scale: PvclockScale) -> Self {
        Self::from_parts(scale.mul, scale.shift)
    }
}
