//! What kind of line it is, by its words, where no row takes it: prose and programs' source are no
//! logs, and of a program's line about time a word tells whether it reports trouble.

use std::collections::HashSet;

use crate::kernel::line::Line;

/// The word lists of messages.txt.
#[derive(Debug, Default)]
pub(super) struct WordLists {
    /// Words of a manual or a letter.
    pub(super) prose: HashSet<&'static str>,
    /// Beside these a clock is none of a time of day.
    pub(super) other_clocks: HashSet<&'static str>,
    /// Words of a fault or a difference.
    pub(super) trouble: HashSet<&'static str>,
}

impl WordLists {
    /// Whether a line can be a program's message about time: no prose, no source, no command.
    pub(super) fn is_message(&self, line: &Line<'_>) -> bool {
        let words = words(line.text);
        let is_short = words.len() <= 10 && !line.text.ends_with(['.', '?', ',']);
        let is_prose = words.iter().any(|word| self.prose.contains(word.as_str()));
        let is_log = has_header(line) || (is_short && !is_source(line.text));
        is_log && !is_prose && !is_command(line.text) && self.is_about_days(line.text)
    }

    /// Whether no word shows that the line is about another clock than one of the time of day.
    pub(super) fn is_about_days(&self, text: &str) -> bool {
        !words(text).iter().any(|word| self.other_clocks.contains(word.as_str()))
    }

    /// Whether a message has a word of a fault.
    pub(super) fn is_trouble(&self, text: &str) -> bool {
        words(text).iter().any(|word| self.trouble.contains(word.as_str()))
    }
}

fn has_header(line: &Line<'_>) -> bool {
    line.is_start || line.program.is_some() || has_name(line.text)
}

/// `make: `, `ERROR `, `time=…`, `{level:`, `E0612 `: a program's name, a level or a field.
fn has_name(text: &str) -> bool {
    const LEVELS: [&str; 11] = [
        "E", "W", "ERROR", "ERR", "WARN", "WARNING", "INFO", "DEBUG", "NOTICE", "FATAL", "CRITICAL",
    ];
    let first = text.split([' ', ':']).next().unwrap_or_default();
    let is_level = LEVELS.contains(&first.to_uppercase().as_str());
    let is_field = text.starts_with(['{', '[']) || first.contains('=');
    let is_klog = first.len() == 5
        && first.starts_with(['I', 'W', 'E', 'F'])
        && first[1..].bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./[]".contains(c);
    let name = text.split_once(": ").map_or("", |(name, _)| name);
    let is_program = !name.is_empty() && name.len() < 32 && name.chars().all(is_name);
    is_level || is_field || is_klog || is_program
}

/// A line of a program: conversions, statements.
pub(super) fn is_source(text: &str) -> bool {
    let has_conversion = text
        .match_indices('%')
        .any(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '{'));
    let is_statement = text.trim_end().ends_with([';', '{', '}', '(', ',', '\\']);
    has_conversion || (is_statement && !text.starts_with('{')) || text.contains("\\n\"")
}

/// What somebody typed at a prompt: `root@host:~# date`, `user@host ~ $ date`.
pub(super) fn is_command(text: &str) -> bool {
    let prompt = text.split_once("# ").or_else(|| text.split_once("$ "));
    prompt.is_some_and(|(before, _)| before.contains('@') && before.len() < 60)
}

fn words(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '/';
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.map(|word| word.trim_matches('\'').to_lowercase()).collect()
}
