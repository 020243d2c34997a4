//! The host's time, by the VMClock page that it shares.

use std::path::Path;
use std::time::{Duration, Instant};

use facts::{Fact, Unknown};
use linux::counter;
use linux::counter::{Counter, CpuCounter};
use linux::kernel_line::KernelLineReader;
use linux::vmclock::VmClockDevice;
use pvclock::ReadError;
use pvclock::units::{ClockPair, Interval, OffsetBound, TimeReading};
use pvclock::vmclock::{NoUtc, Utc, VmClockInfo};
use pvclock::vvar::KernelLine;

use crate::SourceError;
use crate::source::{ReadStatus, now, offset};

/// Tries to find the page unchanged around a reading: a host writes it once a
/// second or less, and a reading takes microseconds.
const TRIES: u32 = 5;

/// Where the kernel's line is not known, it is looked for again after this.
const REOPEN: Duration = Duration::from_secs(60);

/// An open VMClock device.
#[derive(Debug)]
pub struct VmClockSource {
    name: String,
    device: VmClockDevice,
    /// The maximum error that the page stated last.
    max_error_ns: Option<u64>,
    /// Systems nearby smear leap seconds, as it stated last.
    is_smeared_nearby: bool,
    /// The leap indicator of a second that is to come, as it stated last.
    leap: Option<u8>,
    /// The kernel's line, where it is known, and when it was looked for.
    kernel: Option<KernelLineReader>,
    sought: Option<Instant>,
}

/// Leap indicators of a second that will be inserted, or left out, at the end of the
/// month (docs/protocols/vmclock.md): the same numbers as an NTP server's.
const ANNOUNCED: [u8; 2] = [1, 2];

/// Why a page does not give the time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VmClockError {
    /// The device cannot be read, or holds no page that we know.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The page's fields lead to no time.
    #[error("{device}: {error}")]
    Page {
        /// The device.
        device: String,
        /// What prevents it.
        error: ReadError,
    },
    /// The page is there for its markers alone: QEMU's and Firecracker's.
    #[error(
        "{device}: the page shows no time (counter_id {counter_id:#04x}, clock_status \
         {clock_status}): this host uses it to announce snapshots and migrations only"
    )]
    TellsNoTime {
        /// The device.
        device: String,
        /// Which counter its time would be of; 0xff is none.
        counter_id: u8,
        /// Its status; 0 is unknown.
        clock_status: u8,
    },
    /// The page does not give UTC.
    #[error("{device}: {why}")]
    NoUtc {
        /// The device.
        device: String,
        /// What it lacks.
        why: NoUtc,
    },
    /// Its time is before 1970 or after 2554.
    #[error("{device}: UTC is out of range: {since_1970_ns} ns since 1970")]
    OutOfRange {
        /// The device.
        device: String,
        /// Its UTC.
        since_1970_ns: i128,
    },
    /// The host rewrote the page during each reading.
    #[error("{device}: changed during each of {tries} readings")]
    Unsteady {
        /// The device.
        device: String,
        /// How often it was tried.
        tries: u32,
    },
}

impl VmClockSource {
    /// Opens `path`, where this thread can read the counter that its page
    /// refers to.
    pub fn open(path: &Path) -> Fact<Self> {
        if !counter::is_readable() {
            let why = "this thread may not read the TSC (prctl PR_SET_TSC)";
            return Fact::Unknown(Unknown::not_applicable(why));
        }
        let name = path.display().to_string();
        let device = VmClockDevice::open(path).map_err(|error| crate::unknown(&name, &error));
        Fact::from(device).map(|device| Self {
            name,
            device,
            max_error_ns: None,
            is_smeared_nearby: false,
            leap: None,
            kernel: None,
            sought: None,
        })
    }

    /// Its path.
    pub fn device(&self) -> &str {
        &self.name
    }

    /// The maximum error that the page stated last.
    pub fn status(&self) -> ReadStatus {
        let (root_distance_ns, leap) = (self.max_error_ns, self.leap);
        ReadStatus { root_distance_ns, leap, ..ReadStatus::default() }
    }

    /// Whether systems nearby smear leap seconds, as the page stated last
    /// (`leap_second_smearing_hint`); it does not itself (docs/protocols/vmclock.md).
    pub fn is_smeared_nearby(&self) -> bool {
        self.is_smeared_nearby
    }

    /// The host's time between two stamps.
    ///
    /// # Errors
    /// The page cannot be read, or the host does not vouch for its time.
    pub fn read<S>(&mut self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        Ok(self.read_by(&CpuCounter, stamp)?)
    }

    /// Its time minus CLOCK_REALTIME, now. Where the kernel's line is known, that is the distance of
    /// the two lines at one count, and no time passes between their readings.
    ///
    /// # Errors
    /// As [`VmClockSource::read`], or none that can be compared.
    pub fn offset(&mut self) -> Result<OffsetBound, SourceError> {
        let at_one_count = self
            .lines()
            .and_then(|(page, line, count)| Some((page, count, Ok(clocks(&line, count)?))));
        let reading = match at_one_count {
            Some((page, count, clocks)) => self.reading(page, count, [clocks.clone(), clocks])?,
            None => self.read(now)?,
        };
        offset(reading, || format!("vmclock {}", self.name))
    }

    /// The page and the kernel's line, where that is known, and a count at which both hold: neither
    /// changed while it was read.
    pub fn lines(&mut self) -> Option<(VmClockInfo, KernelLine, u64)> {
        if self.kernel.is_none() && self.sought.is_none_or(|sought| sought.elapsed() >= REOPEN) {
            (self.kernel, self.sought) = (KernelLineReader::open().ok(), Some(Instant::now()));
        }
        let kernel = self.kernel?;
        (0..TRIES).find_map(|_| {
            let (page, line) = (self.page()?, kernel.read().ok()?);
            let count = CpuCounter.read_ordered();
            let are_same = kernel.read() == Ok(line) && self.page() == Some(page);
            are_same.then_some((page, line, count))
        })
    }

    /// As [`VmClockSource::read`], by any counter.
    pub(crate) fn read_by<S>(
        &mut self,
        counter: &impl Counter,
        stamp: impl Fn() -> S,
    ) -> Result<TimeReading<S>, VmClockError> {
        for _ in 0..TRIES {
            let info = self.info()?;
            let before = stamp();
            let count = counter.read_ordered();
            let after = stamp();
            // The page of before a migration does not describe the counter
            // after it.
            if self.info()? == info {
                return self.reading(info, count, [before, after]);
            }
        }
        Err(VmClockError::Unsteady { device: self.name.clone(), tries: TRIES })
    }

    /// The page's time at a count, between two stamps.
    fn reading<S>(
        &mut self,
        info: VmClockInfo,
        count: u64,
        [before, after]: [S; 2],
    ) -> Result<TimeReading<S>, VmClockError> {
        let Utc { since_1970_ns, max_error } = self.utc(info, count)?;
        let out_of_range = |_| VmClockError::OutOfRange {
            device: self.name.clone(),
            since_1970_ns: since_1970_ns.into(),
        };
        let shown_ns = u64::try_from(since_1970_ns).map_err(out_of_range)?;
        let mut utc_ns = Interval::around(shown_ns, max_error.0);
        // Its nanoseconds are truncated.
        utc_ns.high += 1;
        self.max_error_ns = Some(max_error.0);
        self.is_smeared_nearby = info.leap_smearing_hint != 0;
        self.leap = Some(info.leap_indicator).filter(|leap| ANNOUNCED.contains(leap));
        let shown_ns = (shown_ns, shown_ns);
        Ok(TimeReading { before, utc_ns, shown_ns, cross_timestamp: None, after })
    }

    /// What the page holds now, if it can be read.
    pub fn page(&self) -> Option<VmClockInfo> {
        self.info().ok()
    }

    fn info(&self) -> Result<VmClockInfo, Unknown> {
        self.device.read().map_err(|error| crate::unknown(&self.name, &error))
    }

    fn utc(&self, info: VmClockInfo, count: u64) -> Result<Utc, VmClockError> {
        let device = || self.name.clone();
        let time = info.time_at(count).map_err(|error| match error {
            ReadError::SwitchedOff { .. } => VmClockError::TellsNoTime {
                device: device(),
                counter_id: info.counter_id.0,
                clock_status: info.clock_status.0,
            },
            error => VmClockError::Page { device: device(), error },
        })?;
        time.utc().map_err(|why| VmClockError::NoUtc { device: device(), why })
    }
}

/// Both clocks at a count.
fn clocks(line: &KernelLine, count: u64) -> Option<ClockPair> {
    let monotonic_ns = u64::try_from(line.monotonic_ns(count).ok()?).ok()?;
    let realtime_ns = u64::try_from(line.realtime_ns(count).ok()?).ok()?;
    Some(ClockPair { monotonic_ns, realtime_ns })
}

#[cfg(test)]
pub(crate) mod tests;
