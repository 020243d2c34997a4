//! Why `parachrond` does not start, or ends.

use std::io;

use daemon::configuration::ConfigurationError;
use daemon::exporter::ListenAddress;
use daemon::{DaemonError, advice, program};

/// Why it does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// No signal can be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// Nobody can connect where `metrics` says.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: ListenAddress,
        /// The system's error.
        error: io::Error,
    },
    /// There is no thread for metrics or records.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The gate's groups cannot be prepared, watched or thawed.
    #[error("gate: {0}")]
    Gate(io::Error),
    /// The daemon does not start, or ends.
    #[error("{}", advice::in_file(&advice::advise(.0).0))]
    Daemon(#[from] DaemonError),
}

impl ProgramError {
    /// What to do about it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Usage(_) => "run `parachrond --help`".into(),
            Self::Configuration(_) => "fix the file, then run `parachrond --check`".into(),
            Self::Signals(_) => "raise the open-file limit (`ulimit -n 4096`)".into(),
            Self::Listen { .. } => "set `metrics` to another address or port".into(),
            Self::Thread(_) => {
                "raise the process limit (`ulimit -u`, or TasksMax= in the unit)".into()
            }
            Self::Gate(_) => {
                "run it as root; to thaw by hand, write 0 to cgroup.freeze of each frozen group"
                    .into()
            }
            Self::Daemon(error) => advice::in_file(&advice::advise(error).1),
        }
    }

    /// One of [`program::EXIT_CODES`].
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Configuration(_) => program::USAGE,
            Self::Signals(_) | Self::Listen { .. } | Self::Thread(_) | Self::Gate(_) => {
                program::FAILED
            }
            Self::Daemon(error) => error.exit_code(),
        }
    }
}
