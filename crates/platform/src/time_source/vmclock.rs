//! The host's time, by the VMClock page that it shares.

use super::NoOffset;
use super::offset::{Moment, Offset, Told};
use crate::reference::vmclock::{Reading, VmClock};
use facts::Unknown;

impl VmClock {
    /// How far the host's UTC is from CLOCK_REALTIME now.
    ///
    /// # Errors
    /// The page cannot be read, or the host does not vouch for its time.
    pub fn compare(&self) -> Result<Offset, NoOffset> {
        from_reading(|| self.device().to_owned(), self.read(Moment::now)?)
    }
}

fn from_reading(
    device: impl Fn() -> String,
    reading: Reading<Result<Moment, Unknown>>,
) -> Result<Offset, NoOffset> {
    let at = u64::try_from(reading.utc.since_1970_ns)
        .map_err(|_| NoOffset::OutOfRange { what: device() })?;
    let mut told = Told::around(at, reading.utc.max_error.0);
    // Its nanoseconds are truncated.
    told.latest_ns += 1;
    told.between(device, reading.before?, reading.after?)
}

#[cfg(test)]
mod tests;
