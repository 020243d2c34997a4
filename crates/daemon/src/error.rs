//! Why a daemon does not start, or ends.

use std::io;
use std::path::PathBuf;

use crate::exporter::ListenAddress;
use facts::Unknown;
use keeper::event::NotUsed;
use linux::system_clock::NoPermission;
use sources::PhcSource;
use sources::chronyd_client::FeedError;
use sources::host::HostChannel;
use sources::phc::UnknownScale;

use crate::gate::control_groups::GateRefusal;
use crate::program;

impl DaemonError {
    /// How a program ends with it: one of [`program::EXIT_CODES`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::MakestepMayGoBackward
            | Self::ToleranceBeyondThreshold
            | Self::ThresholdBeyondMaxStep
            | Self::ListensAnywhere(_)
            | Self::DuplicateSource(_)
            | Self::UnknownScale { .. } => program::USAGE,
            // Another user's file, or no right to the folder: for a person. A /run that is
            // read-only or full, no file left to open: the system may have it again soon.
            Self::Lock { error, .. } if error.kind() != io::ErrorKind::PermissionDenied => {
                program::FAILED
            }
            Self::OtherDaemonsUnknown(_)
            | Self::AlreadyRunning { .. }
            | Self::Lock { .. }
            | Self::NotPermitted(_)
            | Self::Gate(_) => program::REFUSED,
            Self::NoSource(_)
            | Self::NoReply
            | Self::UnusableSource { .. }
            | Self::UnusableChannel { .. } => program::NO_SOURCE,
            Self::Feed(_) | Self::Wait(_) => program::FAILED,
        }
    }
}

/// Why a daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The clock is never to be set back, and chronyd may set it back.
    #[error("chronyd's makestep steps by its own measurements, and may step backward")]
    MakestepMayGoBackward,
    /// Offsets that are ignored would have to be stepped.
    #[error("the tolerance is larger than the step threshold")]
    ToleranceBeyondThreshold,
    /// Offsets that are stepped would have to be refused.
    #[error("the step threshold is larger than the largest step")]
    ThresholdBeyondMaxStep,
    /// Other machines could read the metrics, and nobody asked for that.
    #[error(
        "metrics: {0} is not a loopback address or a Unix socket; serve other machines through a \
         proxy, or set listen-anywhere = true"
    )]
    ListensAnywhere(ListenAddress),
    /// The processes of this machine cannot be read.
    #[error("cannot read which other time daemons run: {0}")]
    OtherDaemonsUnknown(Unknown),
    /// Another of these daemons corrects this clock.
    #[error("another parachrond or `parachron keep` already corrects this clock (it holds {file})")]
    AlreadyRunning {
        /// The file that it holds locked.
        file: &'static str,
    },
    /// The file cannot be locked.
    #[error("cannot check for another keeper: {file}: {error}")]
    Lock {
        /// That file.
        file: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// This process may not set the clock.
    #[error("cannot set the time of day: {0}")]
    NotPermitted(NoPermission),
    /// The gate would freeze what has to thaw it.
    #[error("gate: {0}")]
    Gate(#[from] GateRefusal),
    /// Two sources are one: it would be counted twice.
    #[error("{0}")]
    DuplicateSource(String),
    /// A source that was named cannot be used.
    #[error("{}: {why}", path.display())]
    UnusableSource {
        /// The device.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The host cannot be listened to.
    #[error("{channel:?}: {why}")]
    UnusableChannel {
        /// Where.
        channel: HostChannel,
        /// Why not.
        why: String,
    },
    /// It is unknown what a PTP hardware clock counts.
    #[error("{}: {why}", phc.device())]
    UnknownScale {
        /// The clock.
        phc: Box<PhcSource>,
        /// What is not known.
        why: UnknownScale,
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
        let lock = |error: Errno| DaemonError::Lock { file: "keep.lock", error: error.into() };
        for passes in [Errno::ROFS, Errno::NOSPC, Errno::MFILE, Errno::NOENT, Errno::IO] {
            assert_eq!(lock(passes).exit_code(), program::FAILED, "{passes}");
        }
        for stays in [Errno::ACCESS, Errno::PERM] {
            assert_eq!(lock(stays).exit_code(), program::REFUSED, "{stays}");
        }
        let running = DaemonError::AlreadyRunning { file: "keep.lock" };
        assert_eq!(running.exit_code(), program::REFUSED);
        assert_eq!(DaemonError::NoSource(Vec::new()).exit_code(), program::NO_SOURCE);
    }
}
