//! The daemon's status for other threads of its process, which make metrics and records of it.
//!
//! The loop posts it once a sample, and waits for no reader: the lock is held for as long as a
//! pointer takes to be copied. Who floods the status socket keeps no reader from it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::status::DaemonStatus;

/// An older status shows a daemon that hangs: three of the longest intervals of samples.
const LONGEST: Duration = Duration::from_secs(30);

/// The latest status. Clones share it.
#[derive(Debug, Clone)]
pub struct StatusBoard(Arc<Mutex<Posted>>);

#[derive(Debug)]
struct Posted {
    status: Arc<DaemonStatus>,
    /// By this its bound grows, ppb.
    growth_ppb: u32,
    at: Instant,
}

impl StatusBoard {
    pub(crate) fn new(status: DaemonStatus, growth_ppb: u32) -> Self {
        let (status, at) = (Arc::new(status), Instant::now());
        Self(Arc::new(Mutex::new(Posted { status, growth_ppb, at })))
    }

    pub(crate) fn post(&self, status: DaemonStatus, growth_ppb: u32) {
        *self.lock() = Posted { status: Arc::new(status), growth_ppb, at: Instant::now() };
    }

    /// The status of the last sample, with the bound as it has grown since; `None` where the
    /// daemon takes none any more.
    pub fn latest(&self) -> Option<DaemonStatus> {
        self.posted_within(LONGEST)
    }

    fn posted_within(&self, longest: Duration) -> Option<DaemonStatus> {
        let (status, growth_ppb, age) = {
            let posted = self.lock();
            (Arc::clone(&posted.status), posted.growth_ppb, posted.at.elapsed())
        };
        (age <= longest).then(|| {
            let mut status = DaemonStatus::clone(&status);
            let grown = (age.as_nanos() * u128::from(growth_ppb)).div_ceil(1_000_000_000);
            let grown_ns = u64::try_from(grown).unwrap_or(u64::MAX);
            let bound_ns = &mut status.clock.bound_ns;
            *bound_ns = bound_ns.map(|bound_ns| bound_ns.saturating_add(grown_ns));
            status
        })
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        // A reader that panics leaves the status whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Daemon;
    use crate::settings::{DiscoveredSource, Settings};

    #[test]
    fn the_latest_status_is_read_until_the_daemon_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        (settings.dry_run, settings.force) = (true, true);
        settings.sources.excluded = DiscoveredSource::ALL.to_vec();
        settings.sources.host_socket = Some(folder.path().join("host.sock"));
        let mut daemon = Daemon::new(settings).unwrap();
        let board = daemon.board();
        assert_eq!(board.latest().unwrap().counts.samples, 0);
        let mut status = daemon.status();
        status.counts.samples = 7;
        (status.clock.offset_ns, status.clock.bound_ns) = (Some(0), Some(1000));
        board.clone().post(status, 500_000);
        assert_eq!(board.latest().unwrap().counts.samples, 7);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(board.posted_within(Duration::from_millis(1)), None);
        // It is read 2 ms later, in which the clock may have gained 1000 ns.
        assert!(board.latest().unwrap().clock.bound_ns.unwrap() >= 2000);
    }
}
