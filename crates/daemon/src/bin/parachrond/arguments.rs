//! The command line.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::{configuration, gate, program};
use lexopt::prelude::*;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Keep,
    PrepareGate,
    Thaw,
    /// The daemon itself starts one so.
    WatchGate {
        list: PathBuf,
        limit: Duration,
    },
    Check,
    Help,
    Version,
}

/// What was given.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) task: Task,
    pub(crate) config: Option<PathBuf>,
    pub(crate) is_dry_run: bool,
}

impl Arguments {
    pub(crate) fn file(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(configuration::PATH))
    }
}

/// Reads them; [`program::OPTIONS`] describes them.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut given = Arguments { task: Task::Keep, config: None, is_dry_run: false };
    let failed = |why: lexopt::Error| why.to_string();
    while let Some(word) = parser.next().map_err(failed)? {
        match word {
            Long("config") => given.config = Some(parser.value().map_err(failed)?.into()),
            Long("prepare-gate") => given.task = Task::PrepareGate,
            Long("thaw") => given.task = Task::Thaw,
            Long(gate::WATCHER_OPTION) => {
                let list = parser.value().map_err(failed)?.into();
                let limit_ms = parser.value().map_err(failed)?.parse().map_err(failed)?;
                given.task = Task::WatchGate { list, limit: Duration::from_millis(limit_ms) };
            }
            Long("check") => given.task = Task::Check,
            Long("dry-run") => given.is_dry_run = true,
            Short('h') | Long("help") => given.task = Task::Help,
            Short('V') | Long("version") => given.task = Task::Version,
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(given)
}

pub(crate) fn help() -> String {
    let mut text = format!("{}\n\nUsage: parachrond [OPTIONS]\n\nOptions:\n", program::ABOUT);
    for option in program::OPTIONS {
        let value = option.value.map_or(String::new(), |value| format!(" {value}"));
        let name = format!("--{}{value}", option.name);
        text.push_str(&format!("  {name:<15} {}\n", option.help));
    }
    text.push_str("\nExit codes:\n");
    for (code, when) in program::EXIT_CODES {
        text.push_str(&format!("  {code}  {when}\n"));
    }
    text
}

/// On standard output; that nobody reads it is no error.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Arguments, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn every_option_of_the_help_is_taken_and_no_other() {
        for option in program::OPTIONS {
            let name = format!("--{}", option.name);
            let given: Vec<&str> = [name.as_str()].into_iter().chain(option.value).collect();
            assert!(of(&given).is_ok(), "{name}");
            assert!(help().contains(&name));
        }
        assert_eq!(of(&["--check", "--config", "/x"]).unwrap().file(), Path::new("/x"));
        assert_eq!(of(&[]).unwrap().file(), Path::new(configuration::PATH));
        for wrong in [&["--chek"][..], &["keep"], &["--config"], &["--dry-run=1"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(help().lines().all(|line| line.chars().count() <= 80));
    }
}
