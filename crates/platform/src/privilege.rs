//! What this user may do.

use facts::Unknown;

/// The reason behind an error of the system, in reading `what`.
pub(crate) fn why(what: &str, error: &std::io::Error) -> Unknown {
    Unknown::from_io(what, error, rustix::process::geteuid().is_root())
}
