//! Shared parts of the parsers.
//!
//! Each parser takes text and returns a fact: it never panics; what it cannot
//! parse becomes [`Unknown::Malformed`] with the start of what it found.

use std::str::FromStr;

use crate::{Fact, Unknown};

/// Text of one line, such as a name: `what` is where it was read.
pub fn line(what: &str, text: &str) -> Fact<String> {
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() || line.contains('\u{fffd}') {
        return Fact::Unknown(Unknown::malformed(what, "a line of text", text));
    }
    Fact::Known(line.to_owned())
}

/// A number alone.
///
/// ```
/// use facts::{Fact, parse};
/// assert_eq!(parse::number("/proc/x", " 7\n"), Fact::Known(7));
/// ```
pub fn number<T: FromStr>(what: &str, text: &str) -> Fact<T> {
    match text.trim().parse() {
        Ok(value) => Fact::Known(value),
        Err(_) => Fact::Unknown(Unknown::malformed(what, "a number", text)),
    }
}

/// A finite number, not negative, among words: the `index`th, counting from 0.
///
/// # Errors
/// There is no such word.
pub fn word_f64(what: &str, text: &str, index: usize) -> Result<f64, Unknown> {
    text.split_whitespace()
        .nth(index)
        .and_then(|word| word.parse().ok())
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| Unknown::malformed(what, "numbers from 0", text))
}

/// Lines of name and value, as in a capture's folder `parachron`.
#[derive(Debug)]
pub struct Fields<'t> {
    what: &'static str,
    text: &'t str,
}

impl<'t> Fields<'t> {
    /// The fields in the file `what`.
    pub fn new(what: &'static str, text: &'t str) -> Self {
        Self { what, text }
    }

    /// The value of a field.
    pub fn word(&self, name: &str) -> Option<&'t str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.trim().split_once(char::is_whitespace)?;
            (key == name).then(|| value.trim())
        })
    }

    /// A whole number, decimal or `0x…`, that fits `T`.
    ///
    /// # Errors
    /// It is missing, no number, or out of range.
    pub fn integer<T: TryFrom<i128>>(&self, name: &str) -> Result<T, Unknown> {
        let malformed =
            |found: &str| Unknown::malformed(self.what, &format!("a field `{name}`"), found);
        let word = self.word(name).ok_or_else(|| malformed(self.text))?;
        let value = match word.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => word.parse(),
        };
        value.ok().and_then(|value| T::try_from(value).ok()).ok_or_else(|| malformed(word))
    }

    /// As [`Fields::integer`], where the field may be left out.
    ///
    /// # Errors
    /// It is no number, or out of range.
    pub fn optional<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>, Unknown> {
        self.word(name).map(|_| self.integer(name)).transpose()
    }
}

/// Text without control characters: it must not control a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `text` broken between words into lines of at most `width` characters; a
/// word longer than that stays whole, so that a command can be copied.
pub fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            wrapped.push('\n');
            used = 0;
        } else if used > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped
}
