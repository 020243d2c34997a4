//! The host's time, by the VMClock page that it shares.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pvclock::ReadError;
use pvclock::counter::{Counter, Tsc};
use pvclock::vmclock::{NoUtc, Utc, VmClockInfo};

use crate::counter;
use crate::fact::{Fact, Unknown};

/// Tries to find the page unchanged around a reading: a host writes it once a
/// second or less, and a reading takes microseconds.
const TRIES: u32 = 5;

/// An open VMClock device.
#[derive(Debug)]
pub struct VmClock {
    name: String,
    device: File,
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
    /// Where Linux has the first one.
    pub const DEVICE: &str = "/dev/vmclock0";

    /// Opens `path` and looks whether it holds a page of a layout we know.
    /// Whether the page tells the time is another matter, and may change.
    pub fn open(path: &Path) -> Fact<Self> {
        if !counter::is_readable() {
            let why = "this thread may not read the TSC (prctl PR_SET_TSC)";
            return Fact::Unknown(Unknown::not_applicable(why));
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(device) => {
                let vmclock = Self { name, device };
                Fact::from(vmclock.info()).map(|_| vmclock)
            }
            Err(error) => Fact::Unknown(Unknown::from_io(&name, &error)),
        }
    }

    /// Its path.
    pub fn device(&self) -> &str {
        &self.name
    }

    /// What the page holds: the driver copies it between two looks at its
    /// sequence count (`vmclock_miscdev_read`, drivers/ptp/ptp_vmclock.c).
    ///
    /// # Errors
    /// It cannot be read, or holds no page that we know.
    pub fn info(&self) -> Result<VmClockInfo, Unknown> {
        let mut bytes = [0; VmClockInfo::SIZE];
        let read = self.device.read_exact_at(&mut bytes, 0);
        read.map_err(|error| Unknown::from_io(&self.name, &error))?;
        VmClockInfo::from_bytes(&bytes).map_err(|error| Unknown::Unreadable {
            what: self.name.clone(),
            error: error.to_string(),
        })
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
            let info = self.info()?;
            let before = stamp();
            let count = counter.read_ordered();
            let after = stamp();
            // The page of before a migration says nothing of the counter
            // after it.
            if self.info()? == info {
                return Ok(Reading { before, utc: self.utc(info, count)?, after });
            }
        }
        Err(VmClockError::Unsteady { device: self.name.clone(), tries: TRIES })
    }

    fn utc(&self, info: VmClockInfo, count: u64) -> Result<Utc, VmClockError> {
        let device = || self.name.clone();
        let time = info.time_at(count);
        let time = time.map_err(|error| VmClockError::Page { device: device(), error })?;
        time.utc().map_err(|why| VmClockError::NoUtc { device: device(), why })
    }
}

#[cfg(test)]
pub(crate) mod tests;
