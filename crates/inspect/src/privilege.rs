//! What this user may do.

use facts::{Fact, Unknown};

/// The reason behind an error of the system, in reading `what`.
pub(crate) fn unknown(what: &str, error: &std::io::Error) -> Unknown {
    Unknown::from_io(what, error, rustix::process::geteuid().is_root())
}

/// A result of the system, in reading `what`, as a fact.
pub(crate) fn fact<T>(what: &str, result: std::io::Result<T>) -> Fact<T> {
    result.map_err(|error| unknown(what, &error)).into()
}
