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
    at: Instant,
}

impl StatusBoard {
    pub(crate) fn new(status: DaemonStatus) -> Self {
        Self(Arc::new(Mutex::new(Posted { status: Arc::new(status), at: Instant::now() })))
    }

    pub(crate) fn post(&self, status: DaemonStatus) {
        *self.lock() = Posted { status: Arc::new(status), at: Instant::now() };
    }

    /// The status as of the last sample; `None` where the daemon takes none any more.
    pub fn latest(&self) -> Option<Arc<DaemonStatus>> {
        self.posted_within(LONGEST)
    }

    fn posted_within(&self, longest: Duration) -> Option<Arc<DaemonStatus>> {
        let posted = self.lock();
        (posted.at.elapsed() <= longest).then(|| Arc::clone(&posted.status))
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
        board.clone().post(status);
        assert_eq!(board.latest().unwrap().counts.samples, 7);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(board.posted_within(Duration::from_millis(1)), None);
    }
}
