//! The kernel's NTP discipline: what `adjtimex` sets, and what each second makes
//! of it. Its output is the length that the next ticks should have.
//!
//! Equations after kernel/time/ntp.c of Linux 6.1, 6.12, 7.2 and 7.3, and RFC 1589,
//! which they implement with a PLL eight times as fast (`SHIFT_PLL` 2). Lengths
//! and frequencies are ns times 2³², per tick and per second. PPS is left out:
//! kernels with `CONFIG_NO_HZ` have none (`CONFIG_NTP_PPS` depends on it).
//!
//! Up to 7.2 a slew lengthens each tick of a second. Since 7.3 it does not: see [`drain`].

mod adjust;
mod drain;

use crate::kernel_clock::timex::status;
use drain::Drain;

/// Fractional bits of a length.
pub(crate) const SCALE: u32 = 32;

const NS_PER_US: i64 = 1000;
const NS_PER_S: i64 = 1_000_000_000;

/// The largest phase error, ns.
const LARGEST_PHASE_NS: i64 = 500_000_000;
/// The largest frequency, 500 ppm in ns/s.
const LARGEST_FREQUENCY: i64 = 500_000 << SCALE;
/// What the maximum error grows by in a second, µs: 500 ppm.
const ERROR_GROWTH_US: i64 = 500;
/// The maximum error from which on the clock is not synchronised, µs.
const LARGEST_ERROR_US: i64 = (LARGEST_PHASE_NS / NS_PER_US) << 5;
/// An old `adjtime` slews by so much a second, µs.
const SLEW_US: i64 = 500;
/// Damping of the PLL, log₂.
const PLL_SHIFT: i64 = 2;
/// The tick that `timex` speaks of has 100 Hz, whatever the kernel's has.
const USER_HZ: i64 = 100;

/// State of the discipline.
///
/// ```
/// use simulator::kernel_clock::{LinuxKernel, Ntp, Version};
///
/// let ntp = Ntp::new(LinuxKernel::new(Version(6, 1, 0), 250));
/// assert_eq!(ntp.tick_length() >> 32, 4_000_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ntp {
    tick_hz: i64,
    leap: Leap,
    status: i32,
    /// What is left to slew, in the change of a tick's length over a second.
    offset: i64,
    /// Since 7.3; nothing before.
    drain: Option<Drain>,
    /// log₂ s.
    time_constant: i64,
    max_error_us: i64,
    estimated_error_us: i64,
    /// ns/s, times 2³².
    frequency: i64,
    /// When an offset was last given, s of the time of day.
    last_offset_s: i64,
    /// What is left of an old `adjtime`, µs.
    singleshot_us: i64,
    /// Of 100 Hz, µs.
    tick_us: i64,
    /// Of a tick in this second.
    length: u64,
    /// Of a tick without anything to slew.
    base_length: u64,
}

/// Division by 2ⁿ towards zero.
const fn halved(value: i64, times: i64) -> i64 {
    if value < 0 { -(value.wrapping_neg() >> times) } else { value >> times }
}

impl Ntp {
    /// As after boot: not synchronised, frequency 0.
    #[must_use]
    pub fn new(kernel: crate::kernel_clock::LinuxKernel) -> Self {
        let mut ntp = Self {
            tick_hz: i64::from(kernel.tick_hz.max(1)),
            leap: Leap::default(),
            status: status::UNSYNC,
            offset: 0,
            drain: kernel.drains_slews().then(Drain::default),
            time_constant: PLL_SHIFT,
            max_error_us: LARGEST_ERROR_US,
            estimated_error_us: LARGEST_ERROR_US,
            frequency: 0,
            last_offset_s: 0,
            singleshot_us: 0,
            tick_us: 1_000_000 / USER_HZ,
            length: 0,
            base_length: 0,
        };
        ntp.clear(0);
        ntp
    }

    /// The clock was set: what was being slewed is void, and a leap second that
    /// was armed is not inserted, although its state stays. `surplus`: of a tick of whole
    /// counts over a tick, a second's.
    pub(crate) fn clear(&mut self, surplus: i64) {
        self.drain = self.drain.map(|_| Drain::new(surplus));
        self.singleshot_us = 0;
        self.status |= status::UNSYNC;
        self.max_error_us = LARGEST_ERROR_US;
        self.estimated_error_us = LARGEST_ERROR_US;
        self.apply_frequency();
        self.length = self.base_length;
        self.offset = 0;
        self.leap.at_s = None;
    }

    /// The length of a tick now, ns times 2³².
    #[must_use]
    pub fn tick_length(&self) -> u64 {
        self.length
    }

    /// What `adjtimex` reports as its status, of [`crate::kernel_clock::timex::status`].
    #[must_use]
    pub fn status(&self) -> i32 {
        self.status
    }

    /// The leap state.
    #[must_use]
    pub fn leap_state(&self) -> LeapState {
        self.leap.state
    }

    /// Frequency and tick become the length of a tick, at once.
    fn apply_frequency(&mut self) {
        let surplus = self.drain.map_or(0, |drain| drain.surplus);
        let second = ((self.tick_us * NS_PER_US * USER_HZ) << SCALE).wrapping_add(surplus);
        let base =
            second.wrapping_add(self.frequency).cast_unsigned() / self.tick_hz.cast_unsigned();
        self.length = self.length.wrapping_add(base.wrapping_sub(self.base_length));
        self.base_length = base;
    }

    /// A second of the time of day begins; returns the leap, −1, 0 or 1 s.
    pub(crate) fn second(&mut self, second: i64) -> i64 {
        let leap = self.leap.second(second, self.status);
        self.grow_error(1);
        let chunk = self.chunk();
        if self.drain.is_some() {
            self.begin_drain(chunk);
            return leap;
        }
        self.offset -= chunk;
        let slew = self.singleshot();
        self.length = self.base_length.wrapping_add_signed(chunk + slew);
        leap
    }

    /// What the PLL slews in a second.
    fn chunk(&self) -> i64 {
        halved(self.offset, PLL_SHIFT + self.time_constant)
    }

    /// What an old `adjtime` adds to a tick in the next second. Its last part is
    /// cut to whole ns a tick.
    fn singleshot(&mut self) -> i64 {
        let part_us = self.singleshot_us.clamp(-SLEW_US, SLEW_US);
        self.singleshot_us -= part_us;
        if self.singleshot_us == 0 {
            (part_us * NS_PER_US / self.tick_hz) << SCALE
        } else {
            (part_us.signum() * ((SLEW_US * NS_PER_US) << SCALE)) / self.tick_hz
        }
    }

    fn grow_error(&mut self, seconds: i64) {
        let growth = seconds.saturating_mul(ERROR_GROWTH_US);
        self.max_error_us = self.max_error_us.saturating_add(growth);
        if self.max_error_us > LARGEST_ERROR_US {
            self.max_error_us = LARGEST_ERROR_US;
            self.status |= status::UNSYNC;
        }
    }

    /// Whether each second now is as the one before, but for the maximum error;
    /// if so, the second before which that holds, if there is one.
    pub(crate) fn is_steady(&self, now_s: i64) -> Option<Option<i64>> {
        let is_drained = self.drain.is_none_or(|drain| drain.is_idle() && self.offset == 0);
        let still = self.chunk() == 0
            && self.singleshot_us == 0
            && self.length == self.base_length
            && is_drained;
        still.then(|| self.leap.quiet_until(now_s, self.status)).flatten()
    }

    /// So many seconds, all of them steady.
    pub(crate) fn pass(&mut self, seconds: i64) {
        self.grow_error(seconds);
    }
}

// The leap second's states. A bit of the status arms it, the end of the day
// fires it, and clearing the bit makes it ready again:
//
// | state | next second, if | becomes |
// | --- | --- | --- |
// | Ok | INS; DEL | Inserting; Deleting |
// | Inserting | no INS; it is midnight | Ok; Passing, the clock goes back 1 s |
// | Deleting | no DEL; it is 23:59:59 | Ok; Passed, the clock goes on 1 s |
// | Passing | always | Passed |
// | Passed | neither INS nor DEL | Ok |

const DAY_S: i64 = 86_400;

/// Where the kernel is with a leap second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeapState {
    /// None is near (`TIME_OK`).
    #[default]
    Ok,
    /// At midnight 23:59:60 follows (`TIME_INS`).
    Inserting,
    /// 23:59:59 is left out (`TIME_DEL`).
    Deleting,
    /// It is 23:59:60 (`TIME_OOP`).
    Passing,
    /// It is over, and its bit still set (`TIME_WAIT`).
    Passed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leap {
    state: LeapState,
    /// The second of the time of day at which it is due.
    at_s: Option<i64>,
}

impl Leap {
    /// A second begins; returns by how much the clock leaps, s.
    fn second(&mut self, second: i64, bits: i32) -> i64 {
        let has = |bit| bits & bit != 0;
        let midnight = |of: i64| second + DAY_S - of % DAY_S;
        let (state, at_s, leap) = match self.state {
            LeapState::Ok if has(status::INS) => (LeapState::Inserting, Some(midnight(second)), 0),
            LeapState::Ok if has(status::DEL) => {
                (LeapState::Deleting, Some(midnight(second + 1)), 0)
            }
            LeapState::Inserting if !has(status::INS) => (LeapState::Ok, None, 0),
            LeapState::Inserting if self.at_s == Some(second) => {
                (LeapState::Passing, self.at_s, -1)
            }
            LeapState::Deleting if !has(status::DEL) => (LeapState::Ok, None, 0),
            LeapState::Deleting if self.at_s == Some(second) => (LeapState::Passed, None, 1),
            LeapState::Passing => (LeapState::Passed, None, 0),
            LeapState::Passed if !has(status::INS | status::DEL) => (LeapState::Ok, self.at_s, 0),
            same => (same, self.at_s, 0),
        };
        *self = Self { state, at_s };
        leap
    }

    /// Nothing if the next second changes the state; otherwise the second that
    /// does.
    fn quiet_until(self, now_s: i64, bits: i32) -> Option<Option<i64>> {
        let has = |bit| bits & bit != 0;
        let due = self.at_s.filter(|&at_s| at_s > now_s);
        match self.state {
            LeapState::Ok => (!has(status::INS | status::DEL)).then_some(None),
            LeapState::Inserting => has(status::INS).then_some(due),
            LeapState::Deleting => has(status::DEL).then_some(due),
            LeapState::Passing => None,
            LeapState::Passed => has(status::INS | status::DEL).then_some(None),
        }
    }
}
