//! The VMClock page, in which a host announces to programs of its guests that
//! the machine was restored or migrated, and publishes the time.
//!
//! # Invariants of the unsafe code
//! 1. A mapping is a page long, read-only and shared, made here and unmapped
//!    only at drop; the device's memory lives as long as the mapping, and
//!    `pvclock`'s readers expect the host's writes to it.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use pvclock::shared;
use pvclock::vmclock::{VmClockPage, VmClockReader};

use crate::kernel_clock::realtime_ns;
use crate::timeline::bound::VmClock;

/// The smallest region that the device has.
const BYTES: usize = 4096;
/// Attempts to read the page: microseconds. The next round is soon.
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

    /// Its contents now.
    pub(crate) fn read(&self) -> Option<VmClock> {
        let reader = self.reader()?;
        let info = reader.info().ok()?;
        let identity = (info.disruption_marker, info.vm_generation);
        Some(VmClock { identity, error_ns: realtime_error_ns(&reader) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no longer used (invariant 1).
        unsafe { libc::munmap(self.address, BYTES) };
    }
}

/// How far CLOCK_REALTIME may be from the host's UTC.
#[cfg(target_arch = "x86_64")]
fn realtime_error_ns(reader: &VmClockReader<'_>) -> Option<u64> {
    let before_ns = realtime_ns();
    let time = reader.time(&pvclock::counter::Tsc).ok()?;
    let after_ns = realtime_ns();
    let utc = time.utc().ok()?;
    let away = |realtime_ns: i64| realtime_ns.abs_diff(utc.since_1970_ns);
    Some(away(before_ns).max(away(after_ns)).saturating_add(utc.max_error.0))
}

#[cfg(not(target_arch = "x86_64"))]
fn realtime_error_ns(_: &VmClockReader<'_>) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn a_file_that_is_no_page_is_no_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(Device::open(path).is_none());
        file.as_file().set_len(BYTES as u64).unwrap();
        assert!(Device::open(path).is_none());
        assert!(Device::open("/nonexistent/vmclock").is_none());
    }
}
