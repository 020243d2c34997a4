//! The clock that is kept.

use pvclock::Nanos;
use pvclock::units::LeapSecond;

/// What is known of a clock's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// It is off by no more than this, ns.
    pub max_ns: u64,
    /// It is probably off by this, ns.
    pub estimated_ns: u64,
}

/// A time of day that can be corrected: the kernel's, or a model of it.
pub trait SystemClock {
    /// Why a correction failed.
    type Error;

    /// CLOCK_REALTIME, time since 1970.
    ///
    /// # Errors
    /// It shows a time before 1970.
    fn now(&self) -> Result<Nanos, Self::Error>;

    /// Adds `by_ns` at once, in one call (`adjtimex`, ADJ_SETOFFSET): no time
    /// passes between reading and setting. A leap second that the kernel was told of, by
    /// whomever, is due still if the clock then shows the same UTC day, else it is not.
    ///
    /// # Errors
    /// Not permitted, or a time that the clock cannot show.
    fn step(&mut self, by_ns: i64) -> Result<(), Self::Error>;

    /// Has the kernel gain or lose `by_ns` gradually, at 500 ppm
    /// (ADJ_OFFSET_SINGLESHOT), replacing what is left of the last slew. If
    /// the caller is killed, nothing has to be undone.
    ///
    /// # Errors
    /// Not permitted, or too much.
    fn slew(&mut self, by_ns: i64) -> Result<(), Self::Error>;

    /// Has the kernel report the clock as synchronised, and its error
    /// (ADJ_MAXERROR, ADJ_ESTERROR, without STA_UNSYNC).
    ///
    /// # Errors
    /// Not permitted.
    fn set_error(&mut self, error: ClockError) -> Result<(), Self::Error>;

    /// Has the kernel report that the clock is probably off by `estimated_ns`
    /// (ADJ_ESTERROR), and by `max_ns` at most (ADJ_MAXERROR), if that is given. The status
    /// stays; by 16 s the kernel sets STA_UNSYNC within a second (`second_overflow`,
    /// kernel/time/ntp.c).
    ///
    /// # Errors
    /// Not permitted.
    fn set_figures(&mut self, max_ns: Option<u64>, estimated_ns: u64) -> Result<(), Self::Error>;

    /// Has the kernel insert or delete a second at the end of the UTC day (STA_INS,
    /// STA_DEL), or neither.
    ///
    /// # Errors
    /// Not permitted.
    fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), Self::Error>;

    /// Sets the frequency correction (ADJ_FREQUENCY), parts per billion: positive
    /// makes the clock faster. It stays if the caller is killed.
    ///
    /// # Errors
    /// Not permitted.
    fn set_frequency(&mut self, ppb: f64) -> Result<(), Self::Error>;
}
