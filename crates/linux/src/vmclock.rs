//! The device through which Linux shows the host's VMClock page.

mod mapped;
mod published;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pvclock::vmclock::VmClockInfo;

pub use mapped::MappedVmClock;
pub use published::PublishedVmClock;

use crate::published::open_at_once;
use crate::reread::read_from_start;

/// An open device, or a file that stands in for it.
#[derive(Debug)]
pub struct VmClockDevice {
    path: PathBuf,
    file: File,
}

impl VmClockDevice {
    /// Where Linux has the first one.
    pub const PATH: &str = "/dev/vmclock0";

    /// Opens `path` and reads it once. The page need not give the time, and
    /// may begin or stop to.
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn open(path: &Path) -> io::Result<Self> {
        let device = Self { path: path.to_owned(), file: open_at_once(path)? };
        device.read().map(|_| device)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the page holds now. The driver copies it between two reads of its
    /// sequence count (`vmclock_miscdev_read`, drivers/ptp/ptp_vmclock.c).
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn read(&self) -> io::Result<VmClockInfo> {
        let mut bytes = [0; VmClockInfo::SIZE];
        let filled = read_from_start(&self.file, &mut bytes)?;
        if filled < bytes.len() {
            let short = format!("{filled} bytes of {}", VmClockInfo::SIZE);
            return Err(io::Error::new(ErrorKind::InvalidData, short));
        }
        VmClockInfo::from_bytes(&bytes)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))
    }
}
