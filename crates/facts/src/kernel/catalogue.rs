//! The catalogue of messages: messages.txt read as a table, and the events of a line by it.

mod pattern;
mod signs;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserialize, IntoDeserializer};

use crate::kernel::LogEvent;
use crate::kernel::catalogue::pattern::{Match, Pattern, Value};
use crate::kernel::catalogue::signs::SignTable;
use crate::kernel::line::Line;

pub(super) use self::signs::{LONGEST_SIGN, Scan};

/// The table; its heading describes the columns.
const MESSAGES: &str = include_str!("messages.txt");

/// One form of a message.
#[derive(Debug)]
struct MessageForm {
    programs: Vec<&'static str>,
    event: &'static str,
    constants: Vec<(&'static str, Value<'static>)>,
    pattern: Pattern,
}

/// All rows, and which of them a line can be.
#[derive(Debug)]
pub(super) struct Catalogue {
    rows: Vec<MessageForm>,
    words: WordLists,
    signs: SignTable,
}

/// What the catalogue makes of a text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// The event of the first row that fits.
    pub(super) event: Option<LogEvent>,
    /// That row; the more of a message a row has, the earlier it stands.
    pub(super) row: usize,
    /// Where in the text the message begins.
    pub(super) start: usize,
    /// The text ends within a message of an earlier row, as a mail breaks lines.
    pub(super) is_unfinished: bool,
}

/// The one catalogue.
pub(super) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::parse(MESSAGES));

/// The event of a line without its stamp, if the kernel or a known program wrote it.
pub fn parse(text: &str) -> Option<LogEvent> {
    let header = super::line::split(text);
    CATALOGUE.read(header.text, header.program).event
}

impl Catalogue {
    fn parse(messages: &'static str) -> Self {
        let (mut rows, mut programs, mut about_time) = (Vec::new(), Vec::new(), Vec::new());
        let (mut part, mut words) = ("", WordLists::default());
        for line in messages.lines().filter(|line| !line.starts_with(['#', ' '])) {
            if let Some(next) = line.strip_prefix("== ") {
                part = next;
                programs = part.split(" | ").next().unwrap_or_default().split(' ').collect();
            } else if part == "words" {
                about_time.extend(line.split(' '));
            } else if words.extend(part, line) {
            } else if let Some((event, pattern)) = line.split_once(" | ") {
                let (event, constants) = event.split_once(' ').unwrap_or((event, ""));
                rows.push(MessageForm {
                    programs: programs.clone(),
                    event,
                    constants: parse_constants(constants),
                    pattern: Pattern::parse(pattern),
                });
            }
        }
        let signs = SignTable::new(rows.iter().map(|row| row.pattern.sign()), &about_time);
        Self { rows, words, signs }
    }

    /// Whether a line can be a message of the catalogue, or has a word about time.
    pub(super) fn scan(&self, line: impl AsRef<[u8]>) -> Scan {
        self.signs.scan(line.as_ref())
    }

    /// Whether the kernel writes a row's message.
    pub(super) fn is_of_kernel(&self, reading: &Reading) -> bool {
        self.rows[reading.row].programs.first() == Some(&"kernel")
    }

    /// Which lists have words of a text.
    pub(super) fn words_of(&self, text: &str) -> Words {
        self.words.look_up(text)
    }

    /// The event of a text that a program wrote; of any program where that is not known.
    pub(super) fn read(&self, text: &str, program: Option<&str>) -> Reading {
        let text = text.strip_prefix("[Firmware Bug]: ").unwrap_or(text);
        let mut reading = Reading::default();
        for at in self.scan(text).rows() {
            let row = &self.rows[at];
            let is_of = |program| row.programs.contains(&program) || row.programs[0] == "*";
            if program.is_some_and(|program| !is_of(program)) {
                continue;
            }
            match row.pattern.find(text) {
                Match::Whole(start, fields) => {
                    reading = Reading { event: row.event(fields), row: at, start, ..reading };
                    if reading.event.is_some() {
                        return reading;
                    }
                }
                Match::Unfinished => reading.is_unfinished = true,
                Match::None => {}
            }
        }
        reading
    }
}

impl MessageForm {
    fn event(&self, mut fields: Vec<(&'static str, Value<'_>)>) -> Option<LogEvent> {
        fields.extend(self.constants.iter().cloned());
        derive(self.event, &mut fields);
        let kind = ("kind", Value::Text(self.event));
        let all = fields.into_iter().chain([kind]);
        let map: MapDeserializer<'_, _, Error> =
            MapDeserializer::new(all.map(|(name, value)| (name, value.into_deserializer())));
        LogEvent::deserialize(map).ok()
    }
}

/// Fields that are sums of those in the message.
fn derive(event: &str, fields: &mut Vec<(&'static str, Value<'_>)>) {
    let number = |name: &str| fields.iter().find(|(key, _)| *key == name)?.1.number();
    match event {
        // Two units of BogoMIPS a cycle where the delay loop counts the TSC.
        "cpu-rate" => {
            if let Some((cpus, bogomips)) = number("cpus").zip(number("bogomips"))
                && cpus >= 1.0
            {
                fields.push(("hz", Value::Unsigned((bogomips * 1e6 / 2.0 / cpus).round() as u64)));
            }
        }
        "hypervisor-stepped" => {
            let whole = |name: &str| fields.iter().find(|(key, _)| *key == name)?.1.whole();
            let ns =
                |s: &str, ns: &str| whole(s)?.checked_mul(1_000_000_000)?.checked_add(whole(ns)?);
            let by_ns = ns("is_s", "is_ns").zip(ns("was_s", "was_ns"));
            if let Some(by_ns) = by_ns.and_then(|(is, was)| is.checked_sub(was)) {
                fields.push(("by_ns", Value::Signed(by_ns)));
            }
        }
        "daemon-stepped" | "daemon-frequency" => {
            let negated = [("by_s", number("fast_s")), ("ppm", number("slow_ppm"))];
            let known = negated.into_iter().filter_map(|(to, number)| Some((to, 0.0 - number?)));
            fields.extend(known.map(|(to, number)| (to, Value::Float(number))));
        }
        // The name has the direction.
        "stated" => {
            let by_s = number("by_s");
            for (name, value) in fields {
                match (*name, &*value, by_s) {
                    ("of", Value::Text("clock-moved"), Some(by_s)) => {
                        let is_back = by_s < 0.0;
                        *value = Value::Text(if is_back { "clock-back" } else { "clock-forward" });
                    }
                    ("of", Value::Text("clock-off"), Some(by_s)) => {
                        let is_ahead = by_s < 0.0;
                        *value = Value::Text(if is_ahead { "clock-ahead" } else { "clock-behind" });
                    }
                    ("by_s", _, Some(by_s)) => *value = Value::Float(by_s.abs()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// `watchdog=true because="losing too many ticks"`
fn parse_constants(mut text: &'static str) -> Vec<(&'static str, Value<'static>)> {
    let mut constants = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let (value, rest) = match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            Some(quoted) => quoted,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        constants.push((
            name,
            match value {
                "true" => Value::Flag(true),
                "false" => Value::Flag(false),
                text => Value::Text(text),
            },
        ));
        text = rest.trim_start();
    }
    constants
}

/// Names of units, and their length, s.
const UNITS: [(&str, f64); 9] = [
    ("ns nsec nsecs nanosecond nanoseconds", 1e-9),
    ("us µs μs usec usecs microsecond microseconds", 1e-6),
    ("ms msec msecs millis millisecond milliseconds", 1e-3),
    ("s sec secs second seconds", 1.0),
    ("m min mins minute minutes", 60.0),
    ("h hr hour hours", 3600.0),
    ("d day days", 86_400.0),
    ("w week weeks", 604_800.0),
    ("y year years", 31_557_600.0),
];

/// A time at the start of a text, s, and what follows it. A minute alone (`5m`) may be a metre.
fn parse_duration(text: &str) -> Option<(f64, &str)> {
    let (mut all_s, mut rest, mut parts, mut unit) = (0.0, text, 0, "");
    while let Some((part_s, name, after)) = part(rest.trim_start_matches([' ', ','])) {
        // Units grow smaller from part to part.
        if parts > 0 && part_s >= all_s {
            break;
        }
        all_s += part_s;
        (rest, unit) = (after, name);
        parts += 1;
    }
    (parts > 1 || (parts == 1 && unit != "m")).then_some((all_s, rest))
}

fn part(text: &str) -> Option<(f64, &str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..end].parse().ok().filter(|number: &f64| *number < 1e15)?;
    let name = text[end..].trim_start_matches([' ', '-']);
    let end = name.find(|c: char| !c.is_alphabetic()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let is_unit = |names: &&(&str, f64)| names.0.split(' ').any(|unit| unit == name);
    let (_, factor) = UNITS.iter().find(is_unit)?;
    Some((number * factor, name, rest))
}

// What kind of line it is, by its words, where no row takes it: prose and programs' source are no
// logs, and of a program's line about time a word tells whether it reports trouble.

/// The word lists of messages.txt: of which lists each word is.
#[derive(Debug, Default)]
struct WordLists(HashMap<&'static str, Words>);

/// Of which lists a text has words.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Words {
    count: usize,
    /// Of a manual or a letter.
    prose: bool,
    /// Beside these a clock is none of a time of day.
    pub(super) other_clocks: bool,
    /// Of a fault or a difference.
    pub(super) trouble: bool,
}

impl WordLists {
    /// Adds a line of a list, if there is one of that name.
    fn extend(&mut self, list: &str, line: &'static str) -> bool {
        for word in line.split(' ') {
            let add: fn(&mut Words) = match list {
                "prose" => |words| words.prose = true,
                "other-clocks" => |words| words.other_clocks = true,
                "trouble" => |words| words.trouble = true,
                _ => return false,
            };
            add(self.0.entry(word).or_default());
        }
        true
    }

    fn look_up(&self, text: &str) -> Words {
        let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '/';
        let (mut found, mut small) = (Words::default(), String::new());
        for word in text.split(|c| !is_part(c)).filter(|word| !word.is_empty()) {
            let word = word.trim_matches('\'');
            small.clear();
            small.push_str(word);
            if word.is_ascii() {
                small.make_ascii_lowercase();
            } else {
                small = word.to_lowercase();
            }
            let of = self.0.get(small.as_str()).copied().unwrap_or_default();
            found.count += 1;
            found.prose |= of.prose;
            found.other_clocks |= of.other_clocks;
            found.trouble |= of.trouble;
        }
        found
    }
}

/// Whether a line can be a program's message about time: no prose, no source, no command.
pub(super) fn is_message(line: &Line<'_>, words: Words) -> bool {
    let is_short = words.count <= 10 && !line.text.ends_with(['.', '?', ',']);
    let is_log = has_header(line) || (is_short && !is_source(line.text));
    is_log && !words.prose && !is_command(line.text) && !words.other_clocks
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
fn is_command(text: &str) -> bool {
    let prompt = text.split_once("# ").or_else(|| text.split_once("$ "));
    prompt.is_some_and(|(before, _)| before.contains('@') && before.len() < 60)
}

#[cfg(test)]
mod tests;
