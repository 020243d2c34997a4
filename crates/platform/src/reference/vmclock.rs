//! The host's time, by the VMClock page that it shares.

use std::path::Path;

use pvclock::ReadError;
use pvclock::counter::{Counter, Tsc};
use pvclock::vmclock::{NoUtc, Utc, VmClockInfo};

use crate::counter;
use crate::vmclock_device::VmClockDevice;
use facts::{Fact, Unknown};

/// Tries to find the page unchanged around a reading: a host writes it once a
/// second or less, and a reading takes microseconds.
const TRIES: u32 = 5;

/// An open VMClock device.
#[derive(Debug)]
pub struct VmClock {
    device: VmClockDevice,
}

/// The host's time, and all clocks before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<S> {
    /// The clocks just before.
    pub before: S,
    /// The host's time.
    pub utc: Utc,
    /// The clocks just after.
    pub after: S,
}

/// Why a page does not tell the time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VmClockError {
    /// The device cannot be read, or holds no page that we know.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The page's fields lead to no time.
    #[error("{device}: {error}")]
    Page {
        /// The device.
        device: String,
        /// What stood in the way.
        error: ReadError,
    },
    /// The page does not tell UTC.
    #[error("{device}: {why}")]
    NoUtc {
        /// The device.
        device: String,
        /// What it lacks.
        why: NoUtc,
    },
    /// The page was written anew between two looks, each time.
    #[error("{device}: changed during each of {tries} readings")]
    Unsteady {
        /// The device.
        device: String,
        /// How often it was tried.
        tries: u32,
    },
}

impl VmClock {
    /// Opens `path`, where this thread can read the counter that its page
    /// refers to.
    pub fn open(path: &Path) -> Fact<Self> {
        if !counter::is_readable() {
            let why = "this thread may not read the TSC (prctl PR_SET_TSC)";
            return Fact::Unknown(Unknown::not_applicable(why));
        }
        VmClockDevice::open(path).map(|device| Self { device })
    }

    /// Its path.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The host's time now; `stamp` reads this machine's clocks.
    ///
    /// # Errors
    /// The page cannot be read, or the host does not vouch for its time.
    pub fn read<S>(&self, stamp: impl Fn() -> S) -> Result<Reading<S>, VmClockError> {
        self.read_by(&Tsc, stamp)
    }

    /// As [`VmClock::read`], by any counter.
    pub(crate) fn read_by<S>(
        &self,
        counter: &impl Counter,
        stamp: impl Fn() -> S,
    ) -> Result<Reading<S>, VmClockError> {
        for _ in 0..TRIES {
            let info = self.device.info()?;
            let before = stamp();
            let count = counter.read_ordered();
            let after = stamp();
            // The page of before a migration says nothing of the counter
            // after it.
            if self.device.info()? == info {
                return Ok(Reading { before, utc: self.utc(info, count)?, after });
            }
        }
        Err(VmClockError::Unsteady { device: self.device().to_owned(), tries: TRIES })
    }

    fn utc(&self, info: VmClockInfo, count: u64) -> Result<Utc, VmClockError> {
        let device = || self.device().to_owned();
        let time = info.time_at(count);
        let time = time.map_err(|error| VmClockError::Page { device: device(), error })?;
        time.utc().map_err(|why| VmClockError::NoUtc { device: device(), why })
    }
}

#[cfg(test)]
pub(crate) mod tests;
