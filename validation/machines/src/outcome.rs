//! How a row ends that does not get through.

use serde::{Deserialize, Serialize};

/// What came of something, or why it could not be done.
pub(crate) type Result<T = (), E = String> = core::result::Result<T, E>;

/// Why a run stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This machine lacks something.
    Unavailable(Unavailable),
    /// Something failed.
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// What this machine lacks, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unavailable {
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Unavailable {
    pub(crate) fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}
