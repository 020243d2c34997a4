//! The configuration file, `/etc/parachron/parachrond.toml`: flat, a key a
//! line, each with the name of `parachron keep`'s option. Both are made from one table.
//!
//! ```
//! let why = daemon::configuration::parse("ntp = ['192.0.2.1']\ntolerence = '2ms'\n").unwrap_err();
//! assert_eq!(why[0].to_string(), "2:1: unknown key \"tolerence\"; nearest: \"tolerance\"");
//! ```

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::advice;
use crate::error::DaemonError;
use crate::settings::Settings;

mod options;

pub use options::{ConfigOption, OPTIONS};

/// Where the file is.
pub const PATH: &str = "/etc/parachron/parachrond.toml";

/// Where the daemon serves its status, unless the file has another path.
pub const STATUS_SOCKET: &str = "/run/parachron/status.sock";

/// Where `parachrond` keeps what it learnt, as its unit's `StateDirectory=`.
const STATE_FOLDER: &str = "/var/lib/parachron";

/// A longer file is not one of ours.
const MOST_BYTES: u64 = 256 << 10;

/// A key of another name is meant for this one where they are as alike as
/// this, of 1: `tolerence` and `tolerance` are 0.89.
const ALIKE: f64 = 0.5;

/// A mistake in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Its line, from 1.
    pub line: usize,
    /// Its first character in that line, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// Why a file's settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// It has mistakes: a line each, as compilers print them.
    #[error("{}", lines(path, mistakes))]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// All that were found.
        mistakes: Vec<Mistake>,
    },
}

fn lines(path: &Path, mistakes: &[Mistake]) -> String {
    let each = mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display()));
    each.collect::<Vec<_>>().join("\n")
}

/// Reads a file, or takes the defaults where there is none and none is needed;
/// whether it was read.
///
/// # Errors
/// As of [`load`].
pub fn load_or_default(
    path: &Path,
    is_optional: bool,
) -> Result<(Settings, bool), ConfigurationError> {
    match load(path) {
        Err(ConfigurationError::Unreadable { error, .. })
            if is_optional && error.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok((parse("").unwrap_or_default(), false))
        }
        loaded => loaded.map(|settings| (settings, true)),
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read, or has mistakes.
pub fn load(path: &Path) -> Result<Settings, ConfigurationError> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        .and_then(|bytes| match bytes as u64 {
            0..=MOST_BYTES => Ok(()),
            _ => Err(std::io::Error::other("longer than a configuration file is")),
        });
    read.map_err(|error| ConfigurationError::Unreadable { path: path.to_owned(), error })?;
    parse(&text)
        .map_err(|mistakes| ConfigurationError::Mistakes { path: path.to_owned(), mistakes })
}

/// The settings of a file's text. What it does not name has its default.
///
/// # Errors
/// Its mistakes: all of them, or those of its syntax.
pub fn parse(text: &str) -> Result<Settings, Vec<Mistake>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut mistakes: Vec<_> = errors
        .iter()
        .map(|error| {
            mistake(text, error.span().unwrap_or(0..0), error.message().replace('\n', ", "))
        })
        .collect();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut settings = Settings {
        status_socket: Some(STATUS_SOCKET.into()),
        state_folder: Some(STATE_FOLDER.into()),
        clockbound: Some(linux::clockbound::FOLDER.into()),
        ..Settings::default()
    };
    for (key, value) in table.get_ref() {
        let applied = match OPTIONS.iter().find(|option| option.key == &**key.get_ref()) {
            Some(option) => option
                .apply(&mut settings, value)
                .map_err(|why| mistake(text, why.at, format!("{}: {}", option.key, why.why))),
            None => Err(mistake(text, key.span(), unknown(key.get_ref()))),
        };
        mistakes.extend(applied.err());
    }
    if mistakes.is_empty()
        && let Err(DaemonError::Contradiction { keys, cause, .. }) = settings.check()
    {
        let at = keys.iter().find_map(|name| {
            table.get_ref().keys().find(|key| key.get_ref() == name).map(|key| key.span())
        });
        mistakes.push(mistake(text, at.unwrap_or(0..0), advice::in_file(&cause)));
    }
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

/// The names of all keys.
pub fn keys() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|option| option.key)
}

/// Keys that 0.1.0 had, and what does their job now.
const REMOVED: [(&str, &str); 1] =
    [("web-config", "put nginx in front of `metrics` for TLS and passwords (docs/guide/fleet.md)")];

fn unknown(key: &str) -> String {
    if let Some((_, remedy)) = REMOVED.iter().find(|(name, _)| *name == key) {
        return format!("{key}: removed after 0.1.0; {remedy}");
    }
    let alike = |name: &str| strsim::normalized_damerau_levenshtein(key, name);
    let nearest = keys().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    let nearest = nearest.filter(|name| alike(name) >= ALIKE);
    let nearest = nearest.map_or(String::new(), |name| format!("; nearest: {name:?}"));
    format!("unknown key {key:?}{nearest}")
}

fn mistake(text: &str, at: Range<usize>, what: String) -> Mistake {
    let before = text.get(..at.start).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = 1 + before.matches('\n').count();
    Mistake { line, column: 1 + before[start..].chars().count(), what }
}

#[cfg(test)]
mod tests;
