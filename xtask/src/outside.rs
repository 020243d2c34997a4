//! Other programs: run quietly; "not installed" is not "failed".

use std::process::{Command, ExitCode, Stdio};

/// How one step of a chore ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded.
    Passed,
    /// It failed, with its output.
    Failed(String),
    /// It could not run.
    Skipped {
        /// What is missing.
        why: String,
        /// How to provide it.
        remedy: String,
    },
}

impl Outcome {
    /// A step that is one command: its output is kept for a failure only.
    pub(crate) fn of(command: &mut Command) -> Self {
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => Self::Passed,
            Ok(output) => {
                let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.push_str(&String::from_utf8_lossy(&output.stderr));
                Self::Failed(text)
            }
            Err(error) => {
                Self::Failed(format!("cannot run {:?}: {error}\n", command.get_program()))
            }
        }
    }

    /// Skipped, with reason and remedy.
    pub(crate) fn skipped(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Skipped { why: why.into(), remedy: remedy.into() }
    }
}

/// A chore that cannot run here, which is no failure: why, and the line of its counts.
pub(crate) fn skip(chore: &str, why: &str, remedy: &str) -> ExitCode {
    println!("SKIPPED: {why}; try: {remedy}");
    println!("{chore}: 0 passed, 0 failed, 1 skipped");
    ExitCode::SUCCESS
}

/// Whether a command runs at all: `cargo deny --version`.
pub(crate) fn is_available(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command with its output on the terminal, and returns its exit code.
pub(crate) fn pass_through(command: &mut Command) -> ExitCode {
    match command.status() {
        // A program that a signal ended has no exit code.
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cannot run {:?}: {error}", command.get_program());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_output() {
        let outcome =
            Outcome::of(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        assert_eq!(outcome, Outcome::Failed("out\nerr\n".to_owned()));
        assert_eq!(Outcome::of(Command::new("sh").args(["-c", "echo out"])), Outcome::Passed);
    }

    #[test]
    fn an_exit_code_is_returned() {
        let ended = |how: &str| pass_through(Command::new("sh").args(["-c", how]));
        assert_eq!(ended("exit 0"), ExitCode::SUCCESS);
        assert_eq!(ended("exit 2"), ExitCode::from(2));
        assert_eq!(ended("kill -9 $$"), ExitCode::FAILURE);
    }

    #[test]
    fn a_missing_program_is_not_available() {
        assert!(!is_available(&mut Command::new("no-such-program-here")));
        let Outcome::Failed(text) = Outcome::of(&mut Command::new("no-such-program-here")) else {
            panic!("a missing program cannot pass");
        };
        assert!(text.contains("no-such-program-here"), "{text}");
    }
}
