//! What can go wrong in a command, and how a person is told.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::output::printable;

/// Exit code when the command could not do what was asked.
pub(crate) const COULD_NOT: u8 = 2;

/// A command's failure: cause, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Whoever read our output has left; there is nobody to tell.
    #[error("the reader of the output has gone")]
    ClosedPipe,
    /// Standard output could not be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// Anything else: the cause, and the remedy.
    #[error("{cause}")]
    Failed {
        /// What went wrong.
        cause: String,
        /// What the person can do.
        remedy: String,
    },
}

impl CliError {
    /// Tells the person, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        self.tell();
        match self {
            // As a program ended by SIGPIPE would: silently.
            Self::ClosedPipe => ExitCode::SUCCESS,
            _ => ExitCode::from(COULD_NOT),
        }
    }

    /// Tells the person.
    pub(crate) fn tell(&self) {
        let said = match self {
            Self::ClosedPipe => return,
            Self::Failed { cause, remedy } => {
                format!("parachron: {cause}\n  try: {remedy}\n")
            }
            other => format!("parachron: {other}\n"),
        };
        // With standard error gone too (a full disk), the exit code is all
        // that is left to say.
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
}

/// Tells the person something that is no failure.
pub(crate) fn note(said: &str) {
    // As above: if nobody can be told, nobody is.
    let _ = writeln!(std::io::stderr(), "parachron: {}", printable(said));
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Output(error),
        }
    }
}

/// Why there is no waiting, for people.
pub(crate) fn cannot_wait(error: std::io::Error) -> CliError {
    CliError::Failed {
        cause: format!("cannot wait for signals and time: {error}"),
        remedy: "a higher limit of open files (`ulimit -n`)".into(),
    }
}
