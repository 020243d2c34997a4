//! What programs exchange with the kernel by `adjtimex(2)`.

/// The fields of `struct timex`, and what the call returns.
///
/// ```
/// use simulator::kernel_clock::{Timex, timex::mode};
///
/// let slew = Timex { modes: mode::OFFSET_SINGLESHOT, offset: -1500, ..Timex::default() };
/// assert_eq!(slew.modes, 0x8001);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timex {
    /// What to set, of [`mode`].
    pub modes: u32,
    /// Offset still to be slewed, ns with [`status::NANO`], else µs.
    pub offset: i64,
    /// Frequency, ppm times 2¹⁶.
    pub frequency: i64,
    /// Maximum error, µs.
    pub max_error: i64,
    /// Estimated error, µs.
    pub estimated_error: i64,
    /// Bits of [`status`].
    pub status: i32,
    /// Time constant of the PLL, log₂ s; of [`mode::TAI`] the offset, s.
    pub constant: i64,
    /// Length of a tick of 100 Hz, µs.
    pub tick: i64,
    /// TAI less UTC, s.
    pub tai: i32,
    /// The time of day, s; for [`mode::SETOFFSET`] the step.
    pub seconds: i64,
    /// Its fraction, ns with [`status::NANO`], else µs.
    pub fraction: i64,
}

/// The bits of `modes` (Linux: include/uapi/linux/timex.h).
pub mod mode {
    /// Slew by `offset`, by the PLL or FLL.
    pub const OFFSET: u32 = 0x0001;
    /// Set the frequency.
    pub const FREQUENCY: u32 = 0x0002;
    /// Set the maximum error.
    pub const MAXERROR: u32 = 0x0004;
    /// Set the estimated error.
    pub const ESTERROR: u32 = 0x0008;
    /// Set the status.
    pub const STATUS: u32 = 0x0010;
    /// Set the time constant.
    pub const TIMECONST: u32 = 0x0020;
    /// Set TAI's offset, which is in `constant`.
    pub const TAI: u32 = 0x0080;
    /// Step by `seconds` and `fraction`.
    pub const SETOFFSET: u32 = 0x0100;
    /// Count in µs from now on.
    pub const MICRO: u32 = 0x1000;
    /// Count in ns from now on.
    pub const NANO: u32 = 0x2000;
    /// Set the length of a tick.
    pub const TICK: u32 = 0x4000;
    /// The old `adjtime(3)`: slew by `offset` µs at 500 ppm.
    pub const OFFSET_SINGLESHOT: u32 = 0x8001;
    /// Marks the one above, and the question what is left of it.
    pub(crate) const ADJTIME: u32 = 0x8000;
}

/// The bits of `status`.
pub mod status {
    /// Slew offsets by the PLL.
    pub const PLL: i32 = 0x0001;
    /// Prefer the FLL, whatever the interval.
    pub const FLL: i32 = 0x0008;
    /// Insert a leap second at the end of the day.
    pub const INS: i32 = 0x0010;
    /// Delete one.
    pub const DEL: i32 = 0x0020;
    /// Not synchronised.
    pub const UNSYNC: i32 = 0x0040;
    /// An offset does not change the frequency.
    pub const FREQHOLD: i32 = 0x0080;
    /// The hardware's clock has failed.
    pub const CLOCKERR: i32 = 0x1000;
    /// Counts in ns.
    pub const NANO: i32 = 0x2000;
    /// The last offset went through the FLL.
    pub const MODE: i32 = 0x4000;
    /// What a program cannot set.
    pub const READ_ONLY: i32 = 0xff00;
}

/// What the call returns: the leap state, or [`ERROR`](state::ERROR).
pub mod state {
    /// No leap second is near.
    pub const OK: i32 = 0;
    /// One is inserted at the end of the day.
    pub const INS: i32 = 1;
    /// One is deleted.
    pub const DEL: i32 = 2;
    /// It passes now.
    pub const OOP: i32 = 3;
    /// It has passed.
    pub const WAIT: i32 = 4;
    /// Not synchronised.
    pub const ERROR: i32 = 5;
}
