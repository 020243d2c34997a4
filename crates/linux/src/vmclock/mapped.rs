//! The VMClock page, mapped: read in place, without a system call.

use std::io::{self, ErrorKind};
use std::path::Path;

use pvclock::vmclock::{VmClockPage, VmClockReader};

use crate::mapping::{BYTES, Mapping};
use crate::published::open_at_once;

/// The mapped page. Nothing here allocates, so that a signal handler may use
/// it.
#[derive(Debug)]
pub struct MappedVmClock(Mapping);

impl MappedVmClock {
    /// Maps the page of the device at `path`.
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_at_once(path)?;
        let metadata = file.metadata()?;
        // A page beyond a short file's end would be SIGBUS; a device has no
        // length.
        if metadata.is_file() && metadata.len() < BYTES as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        let mapped = Self(Mapping::new(&file, false)?);
        mapped.reader().map(drop)?;
        Ok(mapped)
    }

    /// A reader of the page.
    ///
    /// # Errors
    /// There is no page of a layout that we know, or no longer.
    pub fn reader(&self) -> io::Result<VmClockReader<'_>> {
        let page = self.0.page::<VmClockPage>();
        page.and_then(VmClockReader::new).map_err(|_| ErrorKind::InvalidData.into())
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
