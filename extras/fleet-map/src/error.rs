//! A command's errors, and how they are printed.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use facts::parse::printable;

/// Exit code of a command that failed.
const COULD_NOT: u8 = 2;

/// The remedy where a file cannot be written.
const NAME_ANOTHER: &str = "name a path in an existing folder that you may write to; \
    `ls -ld` shows the permissions";

/// A command's failure: cause, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The reader of standard output closed it; nothing is printed.
    #[error("the reader closed the output")]
    ClosedPipe,
    /// Standard output could not be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's error.
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

impl CommandError {
    /// Prints it, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let text = match self {
            // Without a message, as a program ended by SIGPIPE.
            Self::ClosedPipe => return ExitCode::SUCCESS,
            Self::Failed { cause, remedy } => format!("fleet-map: {cause}\n  try: {remedy}\n"),
            Self::Write { .. } => format!("fleet-map: {self}\n  try: {NAME_ANOTHER}\n"),
            Self::Output(_) => format!("fleet-map: {self}\n"),
        };
        // If standard error fails too (a full disk), the exit code remains.
        let _ = std::io::stderr().write_all(text.as_bytes());
        ExitCode::from(COULD_NOT)
    }
}

/// Prints a note, which is no error, on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "fleet-map: {}", printable(text));
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Output(error),
        }
    }
}

/// The error of a wait that cannot start.
pub(crate) fn cannot_wait(error: std::io::Error) -> CommandError {
    CommandError::Failed {
        cause: format!("cannot wait for a signal or a timer: {error}"),
        remedy: "raise the limit of open files (`ulimit -n`)".into(),
    }
}
