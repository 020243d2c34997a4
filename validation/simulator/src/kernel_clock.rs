//! A model of how a Linux kernel keeps time from a counter: steering by `adjtimex`, leap seconds and
//! suspend, in the kernel's integers; differences between versions are data.
//!
//! ```
//! use simulator::kernel_clock::timex::{mode, status};
//! use simulator::kernel_clock::{KernelClockSource, LinuxKernel, Timekeeper, Timex, Version};
//!
//! // Debian 13 on a TSC of 3 GHz, booted on 1 January 2026.
//! let kernel = LinuxKernel::new(Version(6, 12, 101), 250);
//! let tsc = KernelClockSource::tsc(3_000_000);
//! let mut keeper = Timekeeper::boot(kernel, tsc, 0, 1_767_225_600_000_000_000);
//!
//! // The kernel's PLL is given an offset of 100 ms, and a time constant of 2.
//! let modes = mode::STATUS | mode::NANO | mode::OFFSET | mode::TIMECONST;
//! let offset = 100_000_000;
//! let mut timex = Timex { modes, status: status::PLL, offset, constant: 2, ..Timex::default() };
//! keeper.adjtimex(0, &mut timex)?;
//!
//! // An hour later, 900 000 ticks in one step, all but 0.3 % has been slewed: a
//! // tick is lengthened by a part of the offset, and a fast second has fewer ticks.
//! let hour = 3_600 * 3_000_000_000;
//! keeper.advance_to(hour);
//! let clocks = keeper.clocks(hour);
//! let slewed = clocks.realtime - 1_767_225_600_000_000_000 - clocks.raw;
//! assert_eq!(slewed / 10_000, 9_969);
//! # Ok::<(), simulator::kernel_clock::Refused>(())
//! ```
//!
//! [`Timekeeper::advance_to`] jumps over any number of ticks, [`Timekeeper::walk_to`] processes each,
//! and [`Timekeeper::interrupt`] one that is late or follows a sleep without ticks. A property test
//! shows the first two equal in every bit.
//!
//! Left out: PPS; the choice of a clock source, its watchdog and the RTC; the auxiliary clocks of 6.17;
//! 32-bit kernels; `CLOCK_*_COARSE`. Rows of [`LinuxKernel`] note what no kernel here has shown.

mod accumulator;
mod jump;
mod kernel;
mod ntp;
mod source;
mod timekeeper;
pub mod timex;

pub use kernel::{LinuxKernel, Version};
pub use ntp::{LeapState, Ntp};
pub use source::KernelClockSource;
pub use timekeeper::{Refused, Timekeeper};
pub use timex::Timex;

/// What programs read, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClocks {
    /// `CLOCK_REALTIME`, since 1970.
    pub realtime: i128,
    /// `CLOCK_MONOTONIC`: stands while the machine is suspended.
    pub monotonic: i128,
    /// `CLOCK_MONOTONIC_RAW`: not steered.
    pub raw: i128,
    /// `CLOCK_BOOTTIME`: goes on in suspend.
    pub boottime: i128,
    /// `CLOCK_TAI`: has no leap seconds.
    pub tai: i128,
}
