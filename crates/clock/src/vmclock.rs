//! The VMClock page, through which a host tells programs of its guests that
//! the machine was restored or migrated, and what time it is.
//!
//! # Invariants of the unsafe code
//! 1. A mapping is a page long, read-only and shared, made here and unmapped
//!    at drop alone; the device's memory stays as long as the mapping, and
//!    what writes it is what `pvclock`'s readers are made for.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use pvclock::shared;
use pvclock::vmclock::{
    ClockStatus, CounterId, TimeType, VmClockFlags, VmClockPage, VmClockReader, VmClockTime,
};

use crate::system::realtime_ns;
use crate::timeline::bound::VmClock;

/// The smallest region that the device has.
const BYTES: usize = 4096;
/// Tries to read the page: microseconds. The next round is soon.
const TRIES: u32 = 100;

/// The mapped page.
#[derive(Debug)]
pub(crate) struct Device {
    address: *mut libc::c_void,
}

// SAFETY: the address is that of a read-only mapping that any thread may read
// (invariant 1).
unsafe impl Send for Device {}

impl Device {
    /// The page at `path`; `None` if there is none of a layout we know.
    pub(crate) fn open(path: &str) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // A page beyond a short file's end would be SIGBUS; a device has no
        // length.
        if metadata.is_file() && metadata.len() < BYTES as u64 {
            return None;
        }
        // SAFETY: a new mapping, placed by the kernel where nothing is.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let device = Self { address };
        device.reader().is_some().then_some(device)
    }

    fn reader(&self) -> Option<VmClockReader<'_>> {
        // SAFETY: mapped for as long as `self` (invariant 1).
        let page: &VmClockPage = unsafe { shared::page_at(self.address.cast()) }.ok()?;
        Some(VmClockReader::new(page).ok()?.with_tries(TRIES))
    }

    /// What it says now.
    pub(crate) fn read(&self) -> Option<VmClock> {
        let reader = self.reader()?;
        let info = reader.info().ok()?;
        let identity = (info.disruption_marker, info.vm_generation);
        Some(VmClock { identity, error_ns: realtime_error_ns(&reader) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more (invariant 1).
        unsafe { libc::munmap(self.address, BYTES) };
    }
}

/// How far CLOCK_REALTIME may be from the host's UTC.
#[cfg(target_arch = "x86_64")]
fn realtime_error_ns(reader: &VmClockReader<'_>) -> Option<u64> {
    let before_ns = realtime_ns();
    let time = reader.time(&pvclock::counter::Tsc).ok()?;
    let after_ns = realtime_ns();
    let (utc_ns, max_error_ns) = utc_ns(&time)?;
    let away_ns = before_ns.abs_diff(utc_ns).max(after_ns.abs_diff(utc_ns));
    Some(away_ns.saturating_add(max_error_ns))
}

#[cfg(not(target_arch = "x86_64"))]
fn realtime_error_ns(_: &VmClockReader<'_>) -> Option<u64> {
    None
}

/// UTC and how far it may be off, ns, where the host vouches for both and
/// counts the TSC.
fn utc_ns(time: &VmClockTime) -> Option<(i64, u64)> {
    let info = &time.info;
    let good = matches!(info.clock_status, ClockStatus::SYNCHRONISED | ClockStatus::FREE_RUNNING);
    if !good || info.counter_id != CounterId::X86_TSC {
        return None;
    }
    let to_utc_s = match info.time_type {
        TimeType::UTC => 0,
        TimeType::TAI if info.flags.contains(VmClockFlags::TAI_OFFSET_VALID) => {
            i64::from(info.tai_offset_s)
        }
        _ => return None,
    };
    let seconds = i64::try_from(time.seconds).ok()?.checked_add(to_utc_s)?;
    let whole_ns = seconds.checked_mul(1_000_000_000)?;
    let utc_ns = whole_ns.checked_add(i64::from(time.subsecond_nanos()))?;
    Some((utc_ns, time.max_error?.0))
}

#[cfg(test)]
mod tests {
    use pvclock::Nanos;
    use pvclock::vmclock::VmClockInfo;

    use super::*;

    fn time(change: impl FnOnce(&mut VmClockInfo)) -> VmClockTime {
        let mut info = VmClockInfo {
            size: 4096,
            counter_id: CounterId::X86_TSC,
            time_type: TimeType::UTC,
            seq_count: 2,
            disruption_marker: 1,
            flags: VmClockFlags::TAI_OFFSET_VALID,
            clock_status: ClockStatus::SYNCHRONISED,
            leap_smearing_hint: 0,
            tai_offset_s: -37,
            leap_indicator: 0,
            period_shift: 0,
            counter_value: 0,
            period: 1,
            period_est_error: 0,
            period_max_error: 0,
            time_sec: 0,
            time_frac: 0,
            time_est_error: Nanos(0),
            time_max_error: Nanos(0),
            vm_generation: 0,
        };
        change(&mut info);
        VmClockTime { seconds: 100, fraction: 1 << 63, max_error: Some(Nanos(70)), info }
    }

    #[test]
    fn utc_and_tai_are_told_as_utc() {
        assert_eq!(utc_ns(&time(|_| {})), Some((100_500_000_000, 70)));
        let tai = time(|info| info.time_type = TimeType::TAI);
        assert_eq!(utc_ns(&tai), Some((63_500_000_000, 70)));
    }

    #[test]
    fn what_the_host_does_not_vouch_for_is_not_told() {
        let changes: [fn(&mut VmClockInfo); 5] = [
            |info| info.clock_status = ClockStatus::UNRELIABLE,
            |info| info.clock_status = ClockStatus::INITIALISING,
            |info| info.counter_id = CounterId::ARM_VIRTUAL,
            |info| info.time_type = TimeType::MONOTONIC,
            |info| {
                info.time_type = TimeType::TAI;
                info.flags = VmClockFlags::default();
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            assert_eq!(utc_ns(&time(change)), None, "change {index}");
        }
        assert_eq!(utc_ns(&VmClockTime { max_error: None, ..time(|_| {}) }), None);
        assert_eq!(utc_ns(&VmClockTime { seconds: u64::MAX, ..time(|_| {}) }), None);
    }

    #[test]
    fn a_file_that_is_no_page_is_no_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(Device::open(path).is_none());
        file.as_file().set_len(BYTES as u64).unwrap();
        assert!(Device::open(path).is_none());
        assert!(Device::open("/nonexistent/vmclock").is_none());
    }
}
