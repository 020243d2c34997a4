//! A VMClock page as a file, which this process writes and others map
//! (docs/protocols/host-time-file.md).

use std::fs::File;
use std::io;
use std::path::Path;

use pvclock::vmclock::{VmClockInfo, VmClockPage, VmClockReader, VmClockWriter};

use crate::mapping::{BYTES, Mapping};
use crate::published;

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
    use crate::vmclock::MappedVmClock;

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
