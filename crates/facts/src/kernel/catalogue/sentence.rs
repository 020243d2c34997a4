//! What a line states of a clock in plain words, where no row takes it: by the words that it has
//! at least one of. Prose and programs' source are no logs, and state nothing.

use super::duration;
use crate::kernel::LogEvent;
use crate::kernel::line::Line;

/// A statement, and the groups of words of which a line has one each.
#[derive(Debug)]
pub(super) struct Sentence {
    of: &'static str,
    groups: Vec<Vec<&'static str>>,
}

/// A longer line is a record of something else, bytes.
const LONGEST: usize = 400;

/// Words of a manual or a letter.
const PROSE: [&str; 26] = [
    "if",
    "may",
    "might",
    "should",
    "would",
    "whether",
    "unless",
    "usually",
    "typically",
    "you",
    "your",
    "we",
    "our",
    "my",
    "i",
    "example",
    "because",
    "however",
    "suppose",
    "must",
    "note",
    "often",
    "sometimes",
    "probably",
    "please",
    "these",
];

/// Words beside clocks that are no clocks of a time of day, and beside other lags.
const OTHER_CLOCKS: [&str; 18] = [
    "pixel",
    "pll",
    "dpll",
    "gating",
    "bus",
    "audio",
    "video",
    "phy",
    "clk",
    "gpu",
    "mmc",
    "spi",
    "cpufreq",
    "master",
    "slave",
    "replica",
    "replication",
    "consumer",
];

/// Words of a difference that is too large.
const EXCESS: [&str; 16] = [
    "detected",
    "too",
    "exceeds",
    "exceeded",
    "exceed",
    "excessive",
    "large",
    "great",
    "high",
    "error",
    "warning",
    "warn",
    "failed",
    "significant",
    "beyond",
    "out",
];

/// Words of a limit that a program was given.
const ALLOWED: [&str; 7] =
    ["allowed", "tolerance", "leeway", "permitted", "maximum", "max", "threshold"];

/// Before these a time is a limit or a pause, and not the size of what happened.
const NO_SIZE: [&str; 22] = [
    "after",
    "for",
    "every",
    "in",
    "timeout",
    "rtt",
    "within",
    "interval",
    "next",
    "last",
    "delay",
    "limit",
    "max",
    "maximum",
    "threshold",
    "than",
    "exceeds",
    "wait",
    "waiting",
    "took",
    "latency",
    "least",
];

impl Sentence {
    /// `clock-back | clock time | went jumped | back backward`
    pub(super) fn parse(line: &'static str) -> Option<Self> {
        let mut parts = line.split(" | ");
        let of = parts.next()?;
        let groups: Vec<Vec<_>> = parts.map(|group| group.split(' ').collect()).collect();
        (!groups.is_empty()).then_some(Self { of, groups })
    }

    fn fits(&self, words: &[String]) -> bool {
        let has = |phrase: &str| {
            let phrase: Vec<&str> = phrase.split('_').collect();
            words.windows(phrase.len()).any(|words| words.iter().eq(phrase.iter()))
        };
        self.groups.iter().all(|group| group.iter().any(|phrase| has(phrase)))
    }
}

/// The first statement that a line of a log makes.
pub(super) fn read(sentences: &[Sentence], line: &Line<'_>) -> Option<LogEvent> {
    let text = line.text;
    if text.len() > LONGEST || !is_message(line) || !has_header(line) {
        return None;
    }
    let words = words(text);
    if words.iter().any(|word| OTHER_CLOCKS.contains(&word.as_str())) {
        return None;
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    // That two clocks are compared, or may differ by so much, is no difference between them.
    let is_bare =
        |of| of == "peers-differ" && !has(&EXCESS) && (has(&ALLOWED) || size_s(text).is_none());
    // Why a unit of systemd failed, its own lines state.
    let is_of_unit =
        |of| of == "no-server" && (text.contains(".service") || text.contains("unit="));
    let sentence = sentences.iter().find(|sentence| {
        sentence.fits(&words) && !is_bare(sentence.of) && !is_of_unit(sentence.of)
    })?;
    Some(LogEvent::Stated { of: sentence.of.to_owned(), by_s: size_s(text) })
}

/// Whether a line can be a program's message: no prose and no source.
pub(super) fn is_message(line: &Line<'_>) -> bool {
    let words = words(line.text);
    let is_prose = words.iter().any(|word| PROSE.contains(&word.as_str()));
    let is_short = words.len() <= 10 && !line.text.ends_with(['.', '?', ',']);
    !is_prose && !is_source(line.text) && (is_short || has_header(line))
}

fn has_header(line: &Line<'_>) -> bool {
    line.is_start || line.program.is_some() || has_name(line.text)
}

/// `make: `, `hwclock: `, `E: `, `ERROR: `, `{level:`: a program's name or a level.
fn has_name(text: &str) -> bool {
    const LEVELS: [&str; 8] =
        ["E", "W", "ERROR", "WARN", "WARNING", "Error", "Warning", "CRITICAL"];
    let Some((name, _)) = text.split_once(": ") else { return text.starts_with('{') };
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./[]".contains(c);
    LEVELS.contains(&name) || (!name.is_empty() && name.len() < 32 && name.chars().all(is_name))
}

/// A line of a program: conversions, statements.
pub(super) fn is_source(text: &str) -> bool {
    let has_conversion = text
        .match_indices('%')
        .any(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '{'));
    let is_statement = text.trim_end().ends_with([';', '{', '}', '(', ',', '\\']);
    has_conversion || (is_statement && !text.starts_with('{')) || text.contains("\\n\"")
}

fn words(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '/';
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.map(|word| word.trim_matches('\'').to_lowercase()).collect()
}

/// The first time in a text that is no limit and no pause, s.
fn size_s(text: &str) -> Option<f64> {
    let digits = text.char_indices().filter(|(_, c)| c.is_ascii_digit());
    digits.map(|(at, _)| at).find_map(|at| {
        let before = &text[..at];
        let is_begin = !before.ends_with(|c: char| c.is_alphanumeric() || "._:/-".contains(c))
            || before.ends_with(" -")
            || before.ends_with("=-");
        let is_part = |c: char| c.is_alphanumeric() || c == '/';
        let last = before.rsplit(|c| !is_part(c)).find(|word| !word.is_empty()).unwrap_or("");
        if !is_begin || NO_SIZE.contains(&last.to_lowercase().as_str()) {
            return None;
        }
        duration::parse(&text[at..]).map(|(s, _)| s)
    })
}
