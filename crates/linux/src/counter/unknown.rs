//! No counter that we know how to read.

use pvclock::counter::Counter;
use pvclock::units::Hertz;

/// There is none.
pub const NAME: &str = "";

/// Nothing reads it.
pub const INSTRUCTIONS: [&str; 3] = [""; 3];

/// No clock source counts it.
pub const CLOCKSOURCES: &[&str] = &[];

/// Nothing states a frequency.
pub const fn frequency() -> Option<Hertz> {
    None
}

/// Nothing promises a rate.
pub const fn is_invariant() -> bool {
    false
}

/// No instruction orders itself.
pub const fn is_self_ordered() -> bool {
    false
}

/// Stands still.
pub const fn self_ordered() -> u64 {
    0
}

/// Stands still.
pub const fn fenced() -> u64 {
    0
}

/// Stands still.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuCounter;

impl Counter for CpuCounter {
    fn read(&self) -> u64 {
        0
    }

    fn order(&self) {}
}
