//! A fact, or why it is unknown.
//!
//! A missing fact matters to a diagnosis too: "no RTC device" and "RTC not
//! readable: needs root" have different remedies. So no fact is an `Option`;
//! each carries the reason why it is unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fact about a machine, or the reason it is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fact<T> {
    /// The machine reports this value.
    Known(T),
    /// The machine does not report it.
    Unknown(Unknown),
}

/// Why a fact is unknown. The text form is a whole clause:
/// `not there: /sys/class/rtc`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Unknown {
    /// Neither file nor device nor program of that name exists.
    #[error("not there: {what}")]
    NotThere {
        /// The path or program.
        what: String,
    },
    /// It exists, but this user may not read it.
    #[error("not readable: {what} needs root")]
    NeedsRoot {
        /// The path or call.
        what: String,
    },
    /// It exists, but reading it failed.
    #[error("not readable: {what}: {error}")]
    Unreadable {
        /// The path or call.
        what: String,
        /// The system's error.
        error: String,
    },
    /// It was read, but cannot be parsed.
    #[error("malformed: {what}: expected {expected}, found {found:?}")]
    Malformed {
        /// The path or call.
        what: String,
        /// The expected form.
        expected: String,
        /// The start of what was found.
        found: String,
    },
    /// This kind of machine does not have it: not an error.
    #[error("does not apply: {why}")]
    NotApplicable {
        /// What rules it out.
        why: String,
    },
    /// Somebody captured other facts of the machine, and not this one.
    #[error("not in the capture: {what}")]
    NotCaptured {
        /// The path.
        what: String,
    },
    /// Only a log of the machine was there to read, and it does not show this.
    #[error("not in the log")]
    NotInLog,
}

/// Characters of a malformed text that an [`Unknown`] carries.
const FOUND_LIMIT: usize = 60;

impl Unknown {
    /// [`Unknown::Malformed`], with the start of what was found.
    pub fn malformed(what: &str, expected: &str, found: &str) -> Self {
        let mut shortened: String = found.chars().take(FOUND_LIMIT).collect();
        if shortened.len() < found.len() {
            shortened.push('…');
        }
        Self::Malformed { what: what.to_owned(), expected: expected.to_owned(), found: shortened }
    }

    /// [`Unknown::NotThere`].
    pub fn not_there(what: &str) -> Self {
        Self::NotThere { what: what.to_owned() }
    }

    /// [`Unknown::NotApplicable`].
    pub fn not_applicable(why: &str) -> Self {
        Self::NotApplicable { why: why.to_owned() }
    }

    /// The reason for a system error in reading `what`. For root, "needs root"
    /// would be the wrong remedy.
    pub fn from_io(what: &str, error: &std::io::Error, is_root: bool) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::not_there(what),
            std::io::ErrorKind::PermissionDenied if !is_root => {
                Self::NeedsRoot { what: what.to_owned() }
            }
            _ => Self::Unreadable { what: what.to_owned(), error: error.to_string() },
        }
    }
}

impl<T> Default for Fact<T> {
    /// What a log alone leaves unknown.
    fn default() -> Self {
        Self::Unknown(Unknown::NotInLog)
    }
}

impl<T> Fact<T> {
    /// The value, where known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// The value, or the reason.
    ///
    /// # Errors
    /// It is unknown.
    pub fn as_result(&self) -> Result<&T, &Unknown> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(why) => Err(why),
        }
    }

    /// The reason, where unknown.
    pub fn unknown(&self) -> Option<&Unknown> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(why) => Some(why),
        }
    }

    /// The fact with its value mapped; the reason stays.
    pub fn map<U>(self, reading: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(reading(value)),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }

    /// As [`Fact::map`], where the mapping can find the value malformed.
    pub fn and_then<U>(self, reading: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => reading(value),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }

    /// Whether the value is known and `test` holds for it.
    pub fn is_known_and(&self, test: impl FnOnce(&T) -> bool) -> bool {
        self.value().is_some_and(test)
    }
}

impl<T> From<Result<T, Unknown>> for Fact<T> {
    fn from(result: Result<T, Unknown>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(why) => Self::Unknown(why),
        }
    }
}
