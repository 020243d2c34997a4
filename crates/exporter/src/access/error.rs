//! Why a configuration cannot be used.

use std::path::PathBuf;

/// A configuration of TLS and passwords that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct WebError {
    /// The file: the configuration, or one that it names.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}
