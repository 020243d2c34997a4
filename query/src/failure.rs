//! Why there is no answer.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// As of `parachron`.
const COULD_NOT: u8 = 2;

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the answer closed it.
    ClosedPipe,
    /// Anything else.
    Because {
        /// What went wrong.
        cause: String,
        /// What the person can do.
        remedy: String,
    },
}

impl Failure {
    pub(crate) fn new(cause: impl Display, remedy: impl Into<String>) -> Self {
        Self::Because { cause: cause.to_string(), remedy: remedy.into() }
    }

    /// An answer that cannot be written.
    pub(crate) fn output(why: &io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::new(format!("cannot write the answer: {why}"), "room on the disk"),
        }
    }

    /// Prints it, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let Self::Because { cause, remedy } = self else { return ExitCode::SUCCESS };
        // If standard error fails too, the exit code remains.
        let _ = writeln!(io::stderr(), "parachron-query: {cause}\n  try: {remedy}");
        ExitCode::from(COULD_NOT)
    }
}
