//! The line by which Linux's vDSO computes CLOCK_REALTIME and CLOCK_MONOTONIC, in the page of
//! kernel data that is mapped into every process (`[vvar]`; include/vdso/datapage.h):
//!
//! ```text
//! time = base + ((counter − cycle_last) · mult + fraction) / 2^shift ns
//! ```
//!
//! The kernel writes it at each tick that it handles and at each `adjtimex`. So what
//! CLOCK_REALTIME shows at a count is known without reading the clock, and how far it is ahead
//! of a VMClock page is arithmetic, without the noise of a measurement.
//!
//! The structure is no ABI. Of 5.10 to 7.3 these layouts are known; whoever reads one compares it
//! with `clock_gettime` before use (`linux::kernel_line`):
//!
//! | kernel | clock begins at | `max_cycles` |
//! | --- | --- | --- |
//! | 5.10 to 6.9, x86-64 | 128 | no |
//! | 6.10 to 6.12, x86-64 | 128 | yes |
//! | since 6.13 or 6.14, x86-64 | 0 | yes |
//! | arm64 | 0 | no |

use core::mem::{offset_of, size_of};

use crate::ReadError;
use crate::sequence::{self, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::vmclock::{NoUtc, VmClockInfo};

/// Where a clock may begin, bytes from the start of the mapping.
pub const OFFSETS: [usize; 2] = [0, 128];

/// `CLOCK_REALTIME` and `CLOCK_MONOTONIC`.
const REALTIME: usize = 0;
const MONOTONIC: usize = 1;

/// Words of `max_cycles`, `mask`, `mult` with `shift`, and twelve base times.
const WORDS: usize = 3 + 2 * 12;

/// Writing takes the kernel less than a microsecond. In a time namespace of its own a process
/// has another page here, which is odd for good (`timens_setup_vdso_clock_data`).
const TRIES: u32 = 1000;

/// The clock source's counter is the CPU's: `VDSO_CLOCKMODE_TSC`, or
/// `VDSO_CLOCKMODE_ARCHTIMER` and `…_NOCOMPAT`.
const COUNTER_MODES: core::ops::RangeInclusive<u32> =
    if cfg!(target_arch = "aarch64") { 1..=2 } else { 1..=1 };

/// The kernel divides ns by at most 2³² (`clocks_calc_mult_shift`).
const LARGEST_SHIFT: u32 = 32;

/// 2³².
const TWO_32: f64 = 4_294_967_296.0;

/// A counter has 56 bits or more, as Arm's.
const LEAST_MASK: u64 = u64::MAX >> 8;

/// Seconds since 1970 that no clock shows: 34 000 years.
const LATEST_S: u64 = 1 << 40;

/// `struct vdso_clock`, before 6.15 `struct vdso_data`.
#[derive(Debug)]
#[repr(C)]
pub struct VvarClock<M: Memory = Aligned> {
    seq: M::U32,
    clock_mode: M::U32,
    cycle_last: M::U64,
    rest: [M::U64; WORDS],
}

const _: () = {
    assert!(size_of::<VvarClock>() == 232);
    assert!(offset_of!(VvarClock, clock_mode) == 4);
    assert!(offset_of!(VvarClock, cycle_last) == 8);
    assert!(offset_of!(VvarClock, rest) == 16);
};

/// What a clock's base is: seconds, and ns · 2^shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelBase {
    /// Whole seconds.
    pub seconds: u64,
    /// Their fraction; up to a second and what was not carried yet.
    pub fraction: u64,
}

/// The kernel's line as it was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLine {
    /// The counter at which it begins.
    pub cycle_last: u64,
    /// ns a count, times `2^shift`.
    pub mult: u32,
    /// See `mult`.
    pub shift: u32,
    /// The bits of the counter that count.
    pub mask: u64,
    /// CLOCK_REALTIME at `cycle_last`.
    pub realtime: KernelBase,
    /// CLOCK_MONOTONIC then.
    pub monotonic: KernelBase,
}

/// Why no line was read, or it is not comparable with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The kernel's page, or VMClock's.
    Read(ReadError),
    /// The kernel does not keep its time by the CPU's counter.
    ClockMode(u32),
    /// No clock of Linux has this scale, or what is beside it.
    NoClock,
    /// The VMClock page gives no UTC.
    NoUtc(NoUtc),
    /// The VMClock page is faster than the kernel's counter by this, ppb: no oscillator is off by
    /// so much.
    Rate(i64),
}

impl core::fmt::Display for LineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::NoUtc(why) => why.fmt(f),
            Self::Rate(ppb) => {
                write!(
                    f,
                    "the page's rate is {ppb} ppb from the kernel's: at most 500000 is steered"
                )
            }
            Self::ClockMode(mode) => {
                write!(f, "clock mode {mode}: the clock source is not the CPU's counter")
            }
            Self::NoClock => write!(f, "its multiplier, shift, mask or times are not a clock's"),
        }
    }
}

impl core::error::Error for LineError {}

impl From<ReadError> for LineError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl<M: Memory> VvarClock<M> {
    /// The line, if it counts the CPU's counter; `has_max_cycles`: the layout.
    ///
    /// # Errors
    /// Another layout, or another clock source.
    pub fn line(&self, has_max_cycles: bool) -> Result<KernelLine, LineError> {
        let first = usize::from(has_max_cycles);
        let (_, (mode, line)) = sequence::read::<M, OddWhileWriting, _>(&self.seq, TRIES, || {
            let word = |index: usize| self.rest[first + index].load();
            let base = |clock: usize| KernelBase {
                seconds: word(2 + 2 * clock),
                fraction: word(3 + 2 * clock),
            };
            let line = KernelLine {
                cycle_last: self.cycle_last.load(),
                mult: word(1) as u32,
                shift: (word(1) >> 32) as u32,
                mask: word(0),
                realtime: base(REALTIME),
                monotonic: base(MONOTONIC),
            };
            (self.clock_mode.load(), line)
        })?;
        if !COUNTER_MODES.contains(&mode) {
            return Err(LineError::ClockMode(mode));
        }
        line.check()
    }
}

impl KernelLine {
    fn check(self) -> Result<Self, LineError> {
        let is_scale = self.mult != 0 && (1..=LARGEST_SHIFT).contains(&self.shift);
        // A counter of 56 bits or more: another one would go round between two looks.
        let is_mask =
            self.mask >= LEAST_MASK && (self.mask == u64::MAX || (self.mask + 1).is_power_of_two());
        let is_time = |base: KernelBase| {
            base.seconds < LATEST_S && base.fraction.checked_shr(self.shift) < Some(2_000_000_000)
        };
        if is_scale && is_mask && is_time(self.realtime) && is_time(self.monotonic) {
            Ok(self)
        } else {
            Err(LineError::NoClock)
        }
    }

    /// A clock at a count, in 2^−32 ns.
    fn extrapolate(&self, base: KernelBase, counter: u64) -> Result<i128, ReadError> {
        let delta = counter.wrapping_sub(self.cycle_last) & self.mask;
        if delta > self.mask >> 1 {
            return Err(ReadError::CounterBehind { counter, timestamp: self.cycle_last });
        }
        let scaled = u128::from(delta) * u128::from(self.mult) + u128::from(base.fraction);
        let whole = i128::from(base.seconds) * 1_000_000_000;
        Ok((whole << 32) + (scaled << (32 - self.shift)).cast_signed())
    }

    /// CLOCK_REALTIME at a count, ns since 1970.
    ///
    /// # Errors
    /// The count is from before the line.
    pub fn realtime_ns(&self, counter: u64) -> Result<i128, ReadError> {
        Ok(self.extrapolate(self.realtime, counter)? >> 32)
    }

    /// CLOCK_MONOTONIC at a count, ns.
    ///
    /// # Errors
    /// The count is from before the line.
    pub fn monotonic_ns(&self, counter: u64) -> Result<i128, ReadError> {
        Ok(self.extrapolate(self.monotonic, counter)? >> 32)
    }

    /// ns a count.
    pub fn ns_per_count(&self) -> f64 {
        f64::from(self.mult) / (1u64 << self.shift) as f64
    }

    /// How far CLOCK_REALTIME is ahead of the page's UTC at a count, ns.
    ///
    /// # Errors
    /// The page gives no UTC at that count, or the kernel's line begins after it.
    pub fn ahead_ns(&self, page: VmClockInfo, counter: u64) -> Result<f64, LineError> {
        let kernel = self.extrapolate(self.realtime, counter)?;
        let time = page.time_at(counter)?;
        let utc = time.utc().map_err(LineError::NoUtc)?;
        // What its nanoseconds left out, in 2^−32 ns.
        let fraction = (u128::from(time.fraction) * 1_000_000_000) as u64 >> 32;
        let page = (i128::from(utc.since_1970_ns) << 32) + i128::from(fraction);
        Ok((kernel - page) as f64 / TWO_32)
    }
}

#[cfg(test)]
mod tests;
