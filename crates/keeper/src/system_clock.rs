//! The clock that is kept.

use pvclock::Nanos;

/// The time of day, as something that can be corrected: the kernel's, or a
/// model of it.
pub trait SystemClock {
    /// Why a correction was not made.
    type Error;

    /// CLOCK_REALTIME, time since 1970.
    ///
    /// # Errors
    /// It shows a time before 1970.
    fn now(&self) -> Result<Nanos, Self::Error>;

    /// Adds `by_ns` at once, in one call (`adjtimex`, ADJ_SETOFFSET): no time
    /// passes between reading and setting.
    ///
    /// # Errors
    /// Not permitted, or not a time that the clock can show.
    fn step(&mut self, by_ns: i64) -> Result<(), Self::Error>;

    /// Has the kernel gain or lose `by_ns` bit by bit, at 500 ppm
    /// (ADJ_OFFSET_SINGLESHOT), in place of what is left of the last slew.
    /// Nothing has to be undone if the caller dies.
    ///
    /// # Errors
    /// Not permitted, or too much.
    fn slew(&mut self, by_ns: i64) -> Result<(), Self::Error>;
}
