//! The VMClock page, mapped: read in place, without a system call.
//!
//! # Invariants of the unsafe code
//! 1. A mapping is a page long, read-only and shared, made here and unmapped
//!    only at drop; the device's memory lives as long as the mapping, and
//!    `pvclock`'s readers expect the host's writes to it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

use pvclock::shared;
use pvclock::vmclock::{VmClockPage, VmClockReader};

/// The smallest region that the device has.
const BYTES: usize = 4096;

/// The mapped page. Nothing here allocates, so that a signal handler may use
/// it.
#[derive(Debug)]
pub struct MappedVmClock {
    address: *mut libc::c_void,
}

// SAFETY: the address is that of a read-only mapping that any thread may read
// (invariant 1).
unsafe impl Send for MappedVmClock {}

impl MappedVmClock {
    /// Maps the page of the device at `path`.
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // A page beyond a short file's end would be SIGBUS; a device has no
        // length.
        if metadata.is_file() && metadata.len() < BYTES as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping, placed by the kernel where nothing is.
        let address = unsafe { libc::mmap(null, BYTES, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = Self { address };
        mapped.reader().map(drop)?;
        Ok(mapped)
    }

    /// A reader of the page.
    ///
    /// # Errors
    /// There is no page of a layout that we know, or no longer.
    pub fn reader(&self) -> io::Result<VmClockReader<'_>> {
        // SAFETY: mapped for as long as `self` (invariant 1).
        let page = unsafe { shared::page_at::<VmClockPage>(self.address.cast()) };
        page.and_then(VmClockReader::new).map_err(|_| ErrorKind::InvalidData.into())
    }
}

impl Drop for MappedVmClock {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no longer used (invariant 1).
        unsafe { libc::munmap(self.address, BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn a_file_that_is_no_page_is_no_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(MappedVmClock::open(file.path()).is_err());
        file.as_file().set_len(BYTES as u64).unwrap();
        assert!(MappedVmClock::open(file.path()).is_err());
        assert!(MappedVmClock::open(Path::new("/nonexistent/vmclock")).is_err());
    }
}
