//! The device through which Linux shows the host's VMClock page.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pvclock::vmclock::VmClockInfo;

/// An open device, or a file that stands in for it.
#[derive(Debug)]
pub struct VmClockDevice {
    path: PathBuf,
    file: File,
}

impl VmClockDevice {
    /// Where Linux has the first one.
    pub const PATH: &str = "/dev/vmclock0";

    /// Opens `path` and reads it once. Whether the page gives the time is
    /// another matter, and may change.
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn open(path: &Path) -> io::Result<Self> {
        let device = Self { path: path.to_owned(), file: File::open(path)? };
        device.read().map(|_| device)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file: for a program that maps the page to read it in place.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What the page holds now. The driver copies it between two reads of its
    /// sequence count (`vmclock_miscdev_read`, drivers/ptp/ptp_vmclock.c).
    ///
    /// # Errors
    /// The system's, or there is no page of a layout that we know.
    pub fn read(&self) -> io::Result<VmClockInfo> {
        let mut bytes = [0; VmClockInfo::SIZE];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => {
                    let short = format!("{filled} bytes of {}", VmClockInfo::SIZE);
                    return Err(io::Error::new(ErrorKind::InvalidData, short));
                }
                Ok(more) => filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        VmClockInfo::from_bytes(&bytes)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))
    }
}
