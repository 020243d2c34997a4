//! The wall clock: which real time it was when system time was 0.

use core::mem::{offset_of, size_of};

use crate::sequence::{self, DEFAULT_TRIES, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, ReadError};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The wall clock of a VM: 12 bytes, written once at each write of its MSR.
#[derive(Debug)]
#[repr(C)]
pub struct WallClockPage<M: Memory = Aligned> {
    version: M::U32,
    sec: M::U32,
    nsec: M::U32,
}

const _: () = {
    assert!(size_of::<WallClockPage>() == 12 && align_of::<WallClockPage>() == 4);
    assert!(offset_of!(WallClockPage, version) == 0);
    assert!(offset_of!(WallClockPage, sec) == 4);
    assert!(offset_of!(WallClockPage, nsec) == 8);
};

impl<M: Memory> WallClockPage<M> {
    /// A page of our own, not yet written.
    pub fn new() -> Self {
        Self { version: M::U32::new(0), sec: M::U32::new(0), nsec: M::U32::new(0) }
    }
}

impl<M: Memory> Default for WallClockPage<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// A real time since 1970 in UTC. The page's 32 bits end in 2106.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: u32,
    /// Nanoseconds within the second; a foreign page may hold more than 10^9.
    pub nanoseconds: u32,
}

impl WallClock {
    /// The time of day when the VM's system time is `system_time`.
    ///
    /// ```
    /// use pvclock::{Nanos, kvm_clock::WallClock};
    /// let boot = WallClock { seconds: 1_700_000_000, nanoseconds: 999_999_999 };
    /// assert_eq!(boot.plus(Nanos(2)), Nanos(1_700_000_001_000_000_001));
    /// ```
    #[must_use]
    pub const fn plus(self, system_time: Nanos) -> Nanos {
        // 2^32 s and 2^32 ns are far below 2^63 ns; the sum may only exceed
        // 64 bits by an absurd system time.
        let boot = self.seconds as u64 * NANOS_PER_SECOND + self.nanoseconds as u64;
        Nanos(boot.saturating_add(system_time.0))
    }
}

/// Reads the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct WallClockReader<'p, M: Memory = Aligned> {
    page: &'p WallClockPage<M>,
    tries: u32,
}

impl<'p, M: Memory> WallClockReader<'p, M> {
    /// A reader of `page`.
    pub const fn new(page: &'p WallClockPage<M>) -> Self {
        Self { page, tries: DEFAULT_TRIES }
    }

    /// Gives up after `tries` tries instead of [`DEFAULT_TRIES`].
    #[must_use]
    pub const fn with_tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// The real time at which system time was 0.
    ///
    /// # Errors
    /// [`ReadError::NeverFinished`]; [`ReadError::SwitchedOff`] where the
    /// host has not written it.
    pub fn read(&self) -> Result<WallClock, ReadError> {
        let page = self.page;
        let (version, wall_clock) =
            sequence::read::<M, OddWhileWriting, _>(&page.version, self.tries, || WallClock {
                seconds: page.sec.load(),
                nanoseconds: page.nsec.load(),
            })?;
        if version == 0 && wall_clock == (WallClock { seconds: 0, nanoseconds: 0 }) {
            return Err(ReadError::SwitchedOff { version });
        }
        Ok(wall_clock)
    }
}

/// Writes the wall clock.
#[derive(Debug)]
pub struct WallClockWriter<'p, M: Memory = Aligned> {
    page: &'p WallClockPage<M>,
}

impl<'p, M: Memory> WallClockWriter<'p, M> {
    /// A writer of `page`, whatever that holds.
    pub const fn new(page: &'p WallClockPage<M>) -> Self {
        Self { page }
    }

    /// Writes it.
    pub fn write(&mut self, wall_clock: WallClock) {
        let page = self.page;
        sequence::write::<M, OddWhileWriting>(&page.version, page.version.load(), || {
            page.sec.store(wall_clock.seconds);
            page.nsec.store(wall_clock.nanoseconds);
        });
    }
}
