//! What the clock takes from a ClockBound segment, in which a time daemon
//! publishes how far CLOCK_REALTIME may be off.

use linux::clock::LinuxClock;
use linux::clockbound::MappedSegment;
use pvclock::clockbound::Layout;

use crate::timeline::bound::SegmentSource;

/// How often a segment is looked for, where there is none or it bounds nothing:
/// its daemon may be started later, and make another file.
const LOOK_NS: u64 = 10_000_000_000;

/// The segment at a path, if there is one.
#[derive(Debug)]
pub(crate) struct PublishedBound {
    path: &'static str,
    mapped: Option<MappedSegment>,
    look_at_ns: u64,
}

impl PublishedBound {
    pub(crate) const fn at_path(path: &'static str) -> Self {
        Self { path, mapped: None, look_at_ns: 0 }
    }

    /// What it bounds at `now_ns`, CLOCK_MONOTONIC.
    pub(crate) fn read(&mut self, now_ns: u64) -> Option<SegmentSource> {
        let bound = self.mapped.as_ref().and_then(bounded);
        if bound.is_some() || now_ns < self.look_at_ns {
            return bound;
        }
        self.look_at_ns = now_ns.saturating_add(LOOK_NS);
        self.mapped = MappedSegment::open(self.path.as_ref()).ok();
        self.mapped.as_ref().and_then(bounded)
    }
}

fn bounded(mapped: &MappedSegment) -> Option<SegmentSource> {
    // Layout 3 bounds another time than CLOCK_REALTIME.
    let (_, bound) = mapped.read().filter(|(layout, _)| *layout != Layout::Counter)?;
    let error_ns = bound.error_ns(LinuxClock::MonotonicCoarse.read_ns()?)?;
    let (as_of_ns, disruption_marker) = (bound.as_of_ns, bound.disruption_marker);
    Some(SegmentSource { error_ns, as_of_ns, disruption_marker })
}

#[cfg(test)]
mod tests {
    use linux::clockbound::PublishedSegment;
    use pvclock::clockbound::{SegmentBound, SegmentStatus};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter does not map files")]
    fn a_bound_is_read_from_when_it_is_published_until_it_is_void() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shm0").to_str().unwrap().to_owned();
        let mut published = PublishedBound::at_path(path.leak());
        assert_eq!(published.read(5), None);
        let as_of_ns = LinuxClock::MonotonicCoarse.read_ns().unwrap();
        let bound = SegmentBound {
            as_of_ns,
            void_after_ns: u64::MAX,
            bound_ns: 40,
            status: SegmentStatus::FreeRunning,
            ..SegmentBound::UNKNOWN
        };
        let mut daemon = PublishedSegment::open(folder.path(), Layout::SystemClock).unwrap();
        daemon.write(&bound).unwrap();
        assert_eq!(published.read(6), None);
        let expected = SegmentSource { error_ns: 40, as_of_ns, disruption_marker: None };
        assert_eq!(published.read(LOOK_NS + 5), Some(expected));
        daemon.write(&SegmentBound { void_after_ns: as_of_ns - 1, ..bound }).unwrap();
        assert_eq!(published.read(LOOK_NS + 6), None);
        // Another daemon, and another file.
        std::fs::remove_file(folder.path().join("shm0")).unwrap();
        let mut daemon = PublishedSegment::open(folder.path(), Layout::SystemClock).unwrap();
        daemon.write(&bound).unwrap();
        assert_eq!(published.read(2 * LOOK_NS + 6), Some(expected));
    }
}
