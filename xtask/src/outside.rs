//! Running outside programs: quietly, and telling "not installed" from
//! "failed".

use std::process::{Command, ExitCode, Stdio};

/// How one step of a chore ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As it should.
    Passed,
    /// Not, with what was said about it.
    Failed(String),
    /// It could not be asked.
    Skipped {
        /// What stood in the way.
        why: String,
        /// What would clear it.
        remedy: String,
    },
}

impl Outcome {
    /// A step that is one command: its output is kept for a failure only.
    pub(crate) fn of(command: &mut Command) -> Self {
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => Self::Passed,
            Ok(output) => {
                let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
                said.push_str(&String::from_utf8_lossy(&output.stderr));
                Self::Failed(said)
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

/// Whether a command answers at all: `cargo deny --version`.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command whose output the person should see, and hands on its code.
pub(crate) fn pass_through(command: &mut Command) -> ExitCode {
    match command.status() {
        // Ended by a signal: no code to hand on.
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
    fn a_failure_keeps_what_was_said() {
        let outcome =
            Outcome::of(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        assert_eq!(outcome, Outcome::Failed("out\nerr\n".to_owned()));
        assert_eq!(Outcome::of(Command::new("sh").args(["-c", "echo out"])), Outcome::Passed);
    }

    #[test]
    fn an_exit_code_is_handed_on() {
        let ended = |how: &str| pass_through(Command::new("sh").args(["-c", how]));
        assert_eq!(ended("exit 0"), ExitCode::SUCCESS);
        assert_eq!(ended("exit 2"), ExitCode::from(2));
        assert_eq!(ended("kill -9 $$"), ExitCode::FAILURE);
    }

    #[test]
    fn a_missing_program_does_not_answer() {
        assert!(!answers(&mut Command::new("no-such-program-here")));
        let Outcome::Failed(said) = Outcome::of(&mut Command::new("no-such-program-here")) else {
            panic!("a missing program cannot pass");
        };
        assert!(said.contains("no-such-program-here"), "{said}");
    }
}
