//! ClockBound's segments as files: mapped by whoever reads the error bound, and
//! by the one that publishes it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use pvclock::clockbound::{Layout, SegmentBound, SegmentPage, SegmentReader, SegmentWriter};

use crate::mapping::Mapping;
use crate::published;

/// The folder that clients look in by default.
pub const FOLDER: &str = "/var/run/clockbound";

/// Attempts to read a segment: microseconds, and its daemon writes it once a
/// second at most.
const TRIES: u32 = 100;

/// A mapped segment. Reading allocates nothing, so that a signal handler may.
#[derive(Debug)]
pub struct MappedSegment(Mapping);

impl MappedSegment {
    /// Maps the segment at `path`.
    ///
    /// # Errors
    /// The system's, or there is no segment of a layout that we know.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::map(&published::open_at_once(path)?, false)
    }

    fn map(file: &File, is_writable: bool) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mapped = Self(Mapping::new(file, is_writable)?);
        // A file of no bytes is mapped, and its first access a SIGBUS.
        if metadata.len() < u64::from(Layout::First.bytes()) {
            return Err(ErrorKind::InvalidData.into());
        }
        if metadata.len() < mapped.reader()?.layout().bytes().into() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(mapped)
    }

    fn page(&self) -> io::Result<&SegmentPage> {
        self.0.page().map_err(|_| ErrorKind::InvalidData.into())
    }

    fn reader(&self) -> io::Result<SegmentReader<'_>> {
        SegmentReader::new(self.page()?).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Its layout and contents now; `None` while there are none, or none that a
    /// daemon can have meant.
    pub fn read(&self) -> Option<(Layout, SegmentBound)> {
        let reader = self.reader().ok()?.with_tries(TRIES);
        Some((reader.layout(), reader.read().ok()?))
    }
}

/// A segment that this process publishes.
#[derive(Debug)]
pub struct PublishedSegment {
    mapped: MappedSegment,
    layout: Layout,
    /// The generation that the last write left, or that was found.
    generation: u16,
}

impl PublishedSegment {
    /// The segment of `layout` in `folder`, world-readable. One that is there is
    /// written on, as clients have it mapped; any other file is replaced.
    ///
    /// # Errors
    /// The system's.
    pub fn open(folder: &Path, layout: Layout) -> io::Result<Self> {
        let path = folder.join(layout.file());
        let found = Self::map_existing(&path, layout);
        let mapped = match found {
            Some(mapped) => mapped,
            None => {
                let content = &layout.new_file()[..layout.bytes() as usize];
                MappedSegment::map(&published::new_file(&path, content)?, true)?
            }
        };
        let generation = SegmentWriter::new(mapped.page()?, layout).generation();
        Ok(Self { mapped, layout, generation })
    }

    /// The segment that is there, if it is a daemon's that could be ours.
    fn map_existing(path: &Path, layout: Layout) -> Option<MappedSegment> {
        let mapped = MappedSegment::map(&published::file(path).ok()?, true).ok()?;
        (mapped.reader().ok()?.layout() == layout).then_some(mapped)
    }

    /// Its contents now, as a client reads them.
    pub fn read(&self) -> Option<SegmentBound> {
        self.mapped.read().map(|(_, bound)| bound)
    }

    /// Publishes `bound`.
    ///
    /// # Errors
    /// Another process writes this segment: it was left as it is.
    pub fn write(&mut self, bound: &SegmentBound) -> io::Result<()> {
        let mut writer = SegmentWriter::new(self.mapped.page()?, self.layout);
        if writer.generation() != self.generation {
            return Err(io::Error::new(ErrorKind::AddrInUse, "another process writes it"));
        }
        self.generation = writer.write(bound);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use pvclock::clockbound::SegmentStatus;

    use super::*;

    const LAYOUT: Layout = Layout::SystemClock;
    const SURE: SegmentBound = SegmentBound {
        void_after_ns: 9,
        bound_ns: 40_000,
        status: SegmentStatus::Synchronised,
        ..SegmentBound::UNKNOWN
    };

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn a_client_reads_what_is_published_also_by_the_next_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shm0");
        let mut published = PublishedSegment::open(folder.path(), LAYOUT).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, std::fs::metadata(&path).unwrap().len()), (0o644, 80));
        let client = MappedSegment::open(&path).unwrap();
        assert_eq!(client.read(), None);
        published.write(&SURE).unwrap();
        assert_eq!(client.read(), Some((LAYOUT, SURE)));
        // Killed, and started again: clients have the same file mapped.
        drop(published);
        let mut published = PublishedSegment::open(folder.path(), LAYOUT).unwrap();
        assert_eq!(published.read(), Some(SURE));
        published.write(&SegmentBound::UNKNOWN).unwrap();
        assert_eq!(client.read(), Some((LAYOUT, SegmentBound::UNKNOWN)));
        // A second one is noticed by the first.
        let mut second = PublishedSegment::open(folder.path(), LAYOUT).unwrap();
        second.write(&SURE).unwrap();
        assert_eq!(
            published.write(&SegmentBound::UNKNOWN).unwrap_err().kind(),
            ErrorKind::AddrInUse
        );
        assert_eq!(client.read(), Some((LAYOUT, SURE)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn a_segment_that_others_may_write_or_is_cut_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shm0");
        let open = || PublishedSegment::open(folder.path(), LAYOUT).unwrap();
        let file = || std::fs::metadata(&path).unwrap();
        drop(open());
        let first = file().ino();
        drop(open());
        assert_eq!(file().ino(), first);
        for mode in [0o666, 0o600] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let before = file().ino();
            open().write(&SURE).unwrap();
            assert!(file().ino() != before && file().mode() & 0o777 == 0o644);
        }
        // Some lengths are long enough for the shortest layout.
        for length in 0..80 {
            File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            assert!(MappedSegment::open(&path).is_err(), "{length}");
            open().write(&SURE).unwrap();
            assert_eq!(MappedSegment::open(&path).unwrap().read(), Some((LAYOUT, SURE)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn what_is_no_segment_is_replaced_and_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("shm0"), folder.path().join("target"));
        for letter in ["", "a letter", &"x".repeat(200)] {
            std::fs::write(&target, letter).unwrap();
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(&target, &path).unwrap();
            assert!(MappedSegment::open(&path).is_err());
            let refused = PublishedSegment::open(folder.path(), LAYOUT).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert!(path.is_symlink());
            assert_eq!(std::fs::read_to_string(&target).unwrap(), letter);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, letter).unwrap();
            PublishedSegment::open(folder.path(), LAYOUT).unwrap().write(&SURE).unwrap();
            assert_eq!(MappedSegment::open(&path).unwrap().read(), Some((LAYOUT, SURE)));
        }
        // Another layout by that name.
        std::fs::rename(&path, folder.path().join("shm1")).unwrap();
        PublishedSegment::open(folder.path(), Layout::Counter).unwrap().write(&SURE).unwrap();
        let shm1 = MappedSegment::open(&folder.path().join("shm1")).unwrap();
        assert_eq!(shm1.read().unwrap().0, Layout::Counter);
        assert!(MappedSegment::open(&folder.path().join("none")).is_err());
    }
}
