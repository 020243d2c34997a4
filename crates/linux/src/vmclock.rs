//! The device through which Linux shows the host's VMClock page.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pvclock::vmclock::{VmClockInfo, VmClockPage, VmClockReader, VmClockWriter};

use crate::mapping::{BYTES, Mapping};
use crate::published::{self, open_at_once};
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

// A VMClock page as a file, which this process writes and others map
// (docs/protocols/host-time-file.md).

/// A page that this process publishes.
#[derive(Debug)]
pub struct PublishedVmClock(Mapping);

impl PublishedVmClock {
    /// The page at `path`, world-readable, and what it holds: one that is there is
    /// written on, as others have it mapped; any other file is replaced by `new`.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, new: &VmClockInfo) -> io::Result<(Self, VmClockInfo)> {
        if let Some(found) = published::file(path).ok().and_then(|file| Self::map(&file)) {
            return Ok(found);
        }
        let mut content = [0; BYTES];
        content[..VmClockInfo::SIZE].copy_from_slice(&new.to_bytes());
        let file = published::new_file(path, &content)?;
        Self::map(&file).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn map(file: &File) -> Option<(Self, VmClockInfo)> {
        if file.metadata().ok()?.len() != BYTES as u64 {
            return None;
        }
        let mapping = Mapping::new(file, true).ok()?;
        let info = VmClockReader::new(mapping.page::<VmClockPage>().ok()?).ok()?.info();
        // Whoever wrote it was killed within an update: its marks are lost with it.
        Some((Self(mapping), info.ok()?))
    }

    /// Publishes `info`.
    ///
    /// # Errors
    /// What the file's other users see is no page.
    pub fn write(&mut self, info: &VmClockInfo) -> io::Result<()> {
        let page = self.0.page::<VmClockPage>().map_err(|_| io::ErrorKind::InvalidData)?;
        VmClockWriter::new(page).write(info);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pvclock::vmclock::{CounterId, VmClockStatus};

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

    const NEW: VmClockInfo = VmClockInfo {
        size: BYTES as u32,
        counter_id: CounterId::X86_TSC,
        disruption_marker: 7,
        ..VmClockInfo::ZERO
    };

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn others_map_what_is_published_also_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host-time");
        for foreign in ["", "a letter", &"x".repeat(BYTES)] {
            std::fs::write(&path, foreign).unwrap();
            let (_, found) = PublishedVmClock::open(&path, &NEW).unwrap();
            assert_eq!(found, NEW);
        }
        for length in 0..BYTES as u64 {
            File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            assert!(MappedVmClock::open(&path).is_err(), "{length}");
            assert_eq!(PublishedVmClock::open(&path, &NEW).unwrap().1, NEW, "{length}");
        }
        let other = MappedVmClock::open(&path).unwrap();
        let info =
            VmClockInfo { disruption_marker: 9, clock_status: VmClockStatus::SYNCHRONISED, ..NEW };
        let (mut page, _) = PublishedVmClock::open(&path, &NEW).unwrap();
        page.write(&info).unwrap();
        let read = other.reader().unwrap().info().unwrap();
        assert_eq!(read, VmClockInfo { seq_count: 2, ..info });
        drop(page);
        let (mut page, found) = PublishedVmClock::open(&path, &NEW).unwrap();
        assert_eq!(found.disruption_marker, 9);
        page.write(&NEW).unwrap();
        assert_eq!(other.reader().unwrap().info().unwrap().disruption_marker, 7);
    }
}
