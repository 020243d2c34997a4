//! A command's errors, and how they are printed.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use facts::parse::printable;

/// Exit code of a command that failed.
pub(crate) const COULD_NOT: u8 = 2;

/// The remedy where a file cannot be written.
pub(crate) const NAME_ANOTHER: &str = "name a path in an existing folder that you may write to; \
    `ls -ld` shows the permissions";

/// A command's failure: cause, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
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
    /// A daemon's end: the cause, the remedy, and its exit code.
    #[error("{cause}")]
    Ended {
        /// What went wrong.
        cause: String,
        /// What the person can do.
        remedy: String,
        /// One of `daemon::program::EXIT_CODES`.
        code: u8,
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
    /// Prints it, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        self.print();
        match self {
            // Without a message, as a program ended by SIGPIPE.
            Self::ClosedPipe => ExitCode::SUCCESS,
            Self::Ended { code, .. } => ExitCode::from(*code),
            _ => ExitCode::from(COULD_NOT),
        }
    }

    /// Prints it on standard error.
    pub(crate) fn print(&self) {
        let text = match self {
            Self::ClosedPipe => return,
            Self::Failed { cause, remedy } | Self::Ended { cause, remedy, .. } => {
                format!("parachron: {cause}\n  try: {remedy}\n")
            }
            Self::Write { .. } => format!("parachron: {self}\n  try: {NAME_ANOTHER}\n"),
            Self::Output(_) => format!("parachron: {self}\n"),
        };
        // If standard error fails too (a full disk), the exit code remains.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Prints the parser's error, or the help, and returns the exit code. What Rust's numbers report
/// names their digits, not what was expected.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let mut text = error.render().ansi().to_string();
    for reported in ["invalid digit found in string", "cannot parse integer from empty string"] {
        text = text.replace(reported, "expected a whole number");
    }
    for reported in ["invalid float literal", "cannot parse float from empty string"] {
        text = text.replace(reported, "expected a number");
    }
    text = text.replace("number too large to fit in target type", "the number is too large");
    // If it cannot be written, the exit code remains.
    let _ = if error.use_stderr() {
        anstream::stderr().write_all(text.as_bytes())
    } else {
        anstream::stdout().write_all(text.as_bytes())
    };
    ExitCode::from(if error.use_stderr() { COULD_NOT } else { 0 })
}

/// Prints a note, which is no error, on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "parachron: {}", printable(text));
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Output(error),
        }
    }
}

/// The error of a wait that cannot start.
pub(crate) fn cannot_wait(error: std::io::Error) -> CliError {
    CliError::Failed {
        cause: format!("cannot wait for a signal or a timer: {error}"),
        remedy: "raise the limit of open files (`ulimit -n`)".into(),
    }
}

// What earlier releases had on the command line, and what does its job now.

/// Commands, options and values: the command that had them, and what to do.
const REMOVED: &[(&[&str], &str, &str)] = &[
    (&["clocks"], "", "run `parachron bench --list`"),
    (&["fleet", "pair"], "", "run `fleet-map` (extras/fleet-map)"),
    (
        &["man"],
        "",
        "run `man parachron` of a package, or `cargo run -p parachron --example man DIR`",
    ),
    (&["simulate"], "", "run `cargo run -p simulator` in a checkout"),
    (
        &["--primes", "--switches", "--load-duration"],
        "bench",
        "run `parachron latency`, which times UnixBench's pipes; run sysbench for primes",
    ),
    (&["--stopwatch"], "drift", "name a server: `parachron drift --ntp HOST`"),
    (&["--only"], "lab", "name the experiments: `parachron lab offset drift`"),
    (&["--plot"], "lab", "add `--format json`"),
    (&["linux"], "lab", "run `cargo xtask machines --only linux-on-provider` in a checkout"),
    (&["--plot"], "latency", "add `--format json`, or compare two runs with --compare"),
    (
        &["--keep", "--suspend"],
        "lab",
        "run `cargo xtask machines --only gate-7.3 --only suspend-7.3` in a checkout",
    ),
    (&["--plain"], "watch", "omit it: `parachron watch` prints lines everywhere"),
    (&["--web-config"], "", "put nginx in front for TLS and passwords (docs/guide/fleet.md)"),
    (&["tables", "rules"], "", "read docs/guide/fleet.md; the alerts are packaging/alerts.yml"),
    (&["dear-exits"], "", "name the rule expensive-exits"),
    (&["csv", "markdown", "tap", "junit"], "", "add `--format json`, and let `jq` make rows of it"),
];

/// The failure that explains `error`, where it is about something that was removed.
pub(crate) fn removal(error: &clap::Error) -> Option<CliError> {
    let kinds =
        [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::InvalidValue];
    let usage = error.get(ContextKind::Usage).map_or(String::new(), ToString::to_string);
    kinds.into_iter().find_map(|kind| {
        let Some(ContextValue::String(word)) = error.get(kind) else { return None };
        let (.., remedy) = REMOVED.iter().find(|(names, command, _)| {
            names.contains(&word.as_str()) && usage.contains(command)
        })?;
        Some(CliError::Failed {
            cause: format!("{word} was removed after 0.1.0"),
            remedy: (*remedy).to_owned(),
        })
    })
}
