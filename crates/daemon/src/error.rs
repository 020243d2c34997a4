//! Why a daemon does not start, or ends.

use std::io;

use facts::Unknown;
use keeper::event::NotUsed;
use linux::system_clock::NoPermission;
use sources::chronyd_client::FeedError;

use crate::gate::control_groups::GateRefusal;
use crate::lock::FILE;
use crate::program;

impl DaemonError {
    /// How a program ends with it: one of [`program::EXIT_CODES`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Contradiction { .. } => program::USAGE,
            // Another user's file, or no right to the folder: for a person. A /run that is
            // read-only or full, no file left to open: the system may have it again soon.
            Self::Lock(error) if error.kind() != io::ErrorKind::PermissionDenied => program::FAILED,
            Self::OtherDaemonsUnknown(_)
            | Self::AlreadyRunning
            | Self::Lock(_)
            | Self::NotPermitted(_)
            | Self::Gate(_) => program::REFUSED,
            Self::NoSource(_) | Self::NoReply | Self::Unusable { .. } => program::NO_SOURCE,
            Self::Feed(_) | Self::Wait(_) => program::FAILED,
        }
    }
}

/// Why a daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// Settings that contradict each other, or what this machine is.
    #[error("{cause}")]
    Contradiction {
        /// The keys that can do so, the likeliest first.
        keys: &'static [&'static str],
        /// How, by the names of options.
        cause: String,
        /// What to do about it.
        remedy: String,
    },
    /// The processes of this machine cannot be read.
    #[error("cannot read which other time daemons run: {0}")]
    OtherDaemonsUnknown(Unknown),
    /// Another of these daemons corrects this clock.
    #[error("another parachrond or `parachron keep` already corrects this clock (it holds {FILE})")]
    AlreadyRunning,
    /// The file cannot be locked.
    #[error("cannot check for another keeper: {FILE}: {0}")]
    Lock(io::Error),
    /// This process may not set the clock.
    #[error("cannot set the time of day: {0}")]
    NotPermitted(NoPermission),
    /// The gate would freeze what has to thaw it.
    #[error("gate: {0}")]
    Gate(#[from] GateRefusal),
    /// What an option names cannot be opened.
    #[error("{option} {value}: {why}")]
    Unusable {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Why not.
        why: String,
    },
    /// There is no time source.
    #[error("no time source")]
    NoSource(Vec<NotUsed>),
    /// There is no socket to feed chronyd through.
    #[error("no socket to feed chronyd through: {0}")]
    Feed(FeedError),
    /// The process cannot wait.
    #[error("cannot wait for the next sample: {0}")]
    Wait(io::Error),
    /// The time to run is over, and no source replied.
    #[error("no source replied")]
    NoReply,
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// [`program::REFUSED`] is what the units are not started again for.
    #[test]
    fn what_may_pass_by_itself_is_no_refusal() {
        let lock = |error: Errno| DaemonError::Lock(error.into());
        for passes in [Errno::ROFS, Errno::NOSPC, Errno::MFILE, Errno::NOENT, Errno::IO] {
            assert_eq!(lock(passes).exit_code(), program::FAILED, "{passes}");
        }
        for stays in [Errno::ACCESS, Errno::PERM] {
            assert_eq!(lock(stays).exit_code(), program::REFUSED, "{stays}");
        }
        let running = DaemonError::AlreadyRunning;
        assert_eq!(running.exit_code(), program::REFUSED);
        assert_eq!(DaemonError::NoSource(Vec::new()).exit_code(), program::NO_SOURCE);
    }
}
