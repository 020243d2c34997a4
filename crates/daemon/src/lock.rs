//! One daemon at a time: a second would correct what the first has corrected
//! already.

use std::path::Path;

use linux::file_lock::FileLock;

use crate::error::DaemonError;

/// The file that a daemon holds locked while it corrects the kernel's clock.
pub(crate) const FILE: &str = "/run/parachron/keep.lock";

/// Takes the lock.
pub(crate) fn take() -> Result<FileLock, DaemonError> {
    let lock = FileLock::take(Path::new(FILE));
    lock.map_err(DaemonError::Lock)?.ok_or(DaemonError::AlreadyRunning)
}
