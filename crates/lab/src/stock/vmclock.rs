//! The VMClock by Linux's own driver: the PTP clock inside against the host's time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use linux::phc;
use linux::vmclock::VmClockDevice;
use pvclock::counter::{Counter as _, Tsc};
use serde::{Deserialize, Serialize};
use vmm::MachineVmClockSource;

use super::host_line::{HostLine, middle, signed};

/// TAI less UTC since 2017, s: a host without a time daemon has none.
const TAI_OFFSET_S: i32 = 37;
/// The host's clock is the truth here, whoever keeps it.
pub(super) const SOURCE: MachineVmClockSource =
    MachineVmClockSource::Assumed { tai_offset_s: TAI_OFFSET_S };
/// The driver's PTP clock counts TAI from here on, and UTC before (vmclock_get_crosststamp,
/// drivers/ptp/ptp_vmclock.c).
const COUNTS_TAI: (u32, u32) = (7, 0);
const PTP_CLOCKS: &str = "/sys/class/ptp";
/// As the driver names the first one.
const NAME: &str = "vmclock0";
/// Tries of a reading, of which the shortest counts.
const TRIES: u32 = 100;

/// The clock read between two readings of the TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VmClockReading {
    tsc: (u64, u64),
    /// What the PTP clock shows; nothing where the driver reads no TSC that the kernel
    /// holds unstable (check_tsc_unstable).
    shown_ns: Option<u64>,
    /// The page's own TAI in the middle, and what it says of its error.
    page_ns: u64,
    max_error_ns: u64,
}

/// The tightest of many; an error where the kernel has no such clock.
pub(super) fn reading() -> io::Result<VmClockReading> {
    let _pinned = linux::cpus::pin(0);
    let (clock, page) = (ptp_clock()?, VmClockDevice::open(Path::new(VmClockDevice::PATH))?);
    let once = || -> io::Result<VmClockReading> {
        // Updated since, its bound is the smaller one.
        let info = page.read()?;
        let before = Tsc.read_ordered();
        let shown_ns = match phc::shown_ns(&clock) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            shown => Some(shown?),
        };
        let tsc = (before, Tsc.read_ordered());
        let time = info.time_at(middle(tsc).0).map_err(io::Error::other)?;
        let error = time.max_error.ok_or_else(|| io::Error::other("the page claims no bound"))?;
        let page_ns = time.seconds.saturating_mul(1_000_000_000);
        let page_ns = page_ns.saturating_add(time.subsecond_nanos().into());
        Ok(VmClockReading { tsc, shown_ns, page_ns, max_error_ns: error.0 })
    };
    let width = |reading: &VmClockReading| reading.tsc.1.wrapping_sub(reading.tsc.0);
    (1..TRIES).try_fold(once()?, |best, _| {
        let next = once()?;
        Ok(if width(&next) < width(&best) { next } else { best })
    })
}

fn ptp_clock() -> io::Result<File> {
    let named = |entry: &PathBuf| {
        fs::read_to_string(entry.join("clock_name")).is_ok_and(|name| name.trim() == NAME)
    };
    let found = fs::read_dir(PTP_CLOCKS)?.filter_map(|entry| Some(entry.ok()?.path())).find(named);
    let name = found.as_deref().and_then(Path::file_name);
    let name = name.ok_or_else(|| io::Error::other(format!("no PTP clock {NAME}")))?;
    File::open(Path::new("/dev").join(name))
}

/// The clock against the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VmClockTimes {
    pub(super) offset_ns: f64,
    pub(super) bound_ns: f64,
    /// Whether the driver read it, or the page was read in its place.
    pub(super) by_driver: bool,
}

/// Of the reading that is furthest beyond its bound.
pub(super) fn times(
    readings: &[VmClockReading],
    host: &HostLine,
    tsc_offset: u64,
    kernel: (u32, u32),
) -> Option<VmClockTimes> {
    let times = readings.iter().map(|reading| {
        let at = host.locate(reading.tsc, tsc_offset)?;
        let by_driver = reading.shown_ns.is_some();
        let counts_tai = !by_driver || kernel >= COUNTS_TAI;
        let ahead_s = if counts_tai { TAI_OFFSET_S } else { 0 };
        let shown_ns = reading.shown_ns.unwrap_or(reading.page_ns);
        let utc_ns = shown_ns.checked_add_signed(-i64::from(ahead_s) * 1_000_000_000)?;
        let offset_ns = signed(utc_ns, host.epoch_ns()) - at.real_ns;
        let bound_ns = reading.max_error_ns as f64 + at.bound_ns;
        Some(VmClockTimes { offset_ns, bound_ns, by_driver })
    });
    let times: Option<Vec<_>> = times.collect();
    let beyond = |times: &VmClockTimes| times.offset_ns.abs() - times.bound_ns;
    times?.into_iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b)))
}

#[cfg(test)]
mod tests {
    use host::HostClocks;
    use pvclock::units::UnixTime;
    use pvclock::{Nanos, Ticks};
    use vmm::host_clock;

    use super::*;

    #[test]
    fn tai_is_expected_of_newer_kernels_and_the_worst_counts() {
        let begin = 1_800_000_000_000_000_000;
        let mut host = HostLine::default();
        for ms in [0, 250] {
            let ns = ms * 1_000_000;
            let real = UnixTime(Nanos(begin + ns));
            let clocks = HostClocks::new(Ticks(5_000 + 2 * ns), Nanos(ns), real);
            host.add(host_clock::HostReading { clocks, width: 40 });
        }
        // 1 ms after the beginning, a guest's TSC ahead by 100.
        let tsc = 5_000 + 2_000_000 + 100;
        let reading = |ahead_ns: u64| VmClockReading {
            tsc: (tsc - 20, tsc + 20),
            shown_ns: Some(begin + 1_000_000 + ahead_ns),
            page_ns: begin + 1_000_000 + 37_000_000_007,
            max_error_ns: 50,
        };
        let readings = [reading(37_000_000_030), reading(37_000_000_300)];
        let worst = times(&readings, &host, 100, (7, 2)).unwrap();
        // Half of both readings: 10 ns each.
        assert_eq!((worst.offset_ns, worst.bound_ns), (300.0, 70.0));
        let utc = times(&[reading(0)], &host, 100, (6, 13)).unwrap();
        assert_eq!((utc.offset_ns, times(&[], &host, 100, (7, 2))), (0.0, None));
        let refused = VmClockReading { shown_ns: None, ..reading(0) };
        let by_page = times(&[refused], &host, 100, (6, 13)).unwrap();
        assert_eq!((by_page.offset_ns, by_page.by_driver), (7.0, false));
        let early = VmClockReading { tsc: (10, 20), ..reading(0) };
        assert_eq!(times(&[early], &host, 100, (6, 13)), None);
    }
}
