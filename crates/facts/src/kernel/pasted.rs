//! A log as somebody has it: a file of dmesg, journalctl or syslog, or a forum's paste with
//! quotes, prompts and colour codes. Bytes in, lines about clocks out, in bounded memory.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::log::{MAX_LINES, split};
use super::signs::has_sign;
use super::{LogEvent, LogLine, event};

/// No line of a log about clocks is longer, bytes; the rest of a longer one is left out.
const LONGEST_LINE: usize = 4096;

/// Mail breaks a line of the watchdog, of some 150 signs, into at most this many.
const MOST_JOINED: u32 = 4;

/// Stamps of several CPUs may be this far out of order, s; more is another boot.
const OUT_OF_ORDER_S: f64 = 5.0;

/// How the bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Undecided,
    Utf8,
    Utf16Little,
    Utf16Big,
}

/// Reads a log piece by piece.
#[derive(Debug)]
pub struct PastedLog {
    encoding: Encoding,
    half: Option<u8>,
    line: Vec<u8>,
    /// A line of the watchdog that lacks its end, which mail breaks off, and from how many lines
    /// it is joined.
    unfinished: Option<(String, u32)>,
    segment: LogSegment,
    /// An earlier boot that has a verdict.
    judged: Option<LogSegment>,
    is_several_boots: bool,
    lines: u64,
}

/// One boot's part of the log.
#[derive(Debug, Default)]
struct LogSegment {
    log: VecDeque<LogLine>,
    release: Option<String>,
    last_at_s: Option<f64>,
}

/// What a log has about clocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Pasted {
    /// The lines about clocks, of one boot.
    pub log: Vec<LogLine>,
    /// `6.1.0-18-amd64`, from the line `Linux version`.
    pub release: Option<String>,
    /// Whether there were lines of another boot or machine, which are left out.
    pub is_several_boots: bool,
    /// All lines, about clocks or not.
    pub lines: u64,
}

impl Default for PastedLog {
    fn default() -> Self {
        Self {
            encoding: Encoding::Undecided,
            half: None,
            line: Vec::new(),
            unfinished: None,
            segment: LogSegment::default(),
            judged: None,
            is_several_boots: false,
            lines: 0,
        }
    }
}

impl PastedLog {
    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.encoding == Encoding::Undecided && !bytes.is_empty() {
            self.encoding = encoding(bytes);
        }
        for &byte in bytes {
            match (self.encoding, self.half.take()) {
                (Encoding::Utf8 | Encoding::Undecided, _) => self.push_byte(byte),
                (_, None) => self.half = Some(byte),
                (Encoding::Utf16Little, Some(low)) => {
                    self.push_unit(u16::from_le_bytes([low, byte]))
                }
                (Encoding::Utf16Big, Some(high)) => {
                    self.push_unit(u16::from_be_bytes([high, byte]))
                }
            }
        }
    }

    /// All that was found.
    pub fn finish(mut self) -> Pasted {
        self.end_line();
        if let Some((line, _)) = self.unfinished.take() {
            self.push_line(&line, true);
        }
        let segment = match self.judged {
            Some(judged) if !self.segment.is_judged() => judged,
            _ => self.segment,
        };
        Pasted {
            log: segment.log.into(),
            release: segment.release,
            is_several_boots: self.is_several_boots,
            lines: self.lines,
        }
    }

    /// A log about clocks is ASCII but for names.
    fn push_unit(&mut self, unit: u16) {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => self.push_byte(byte),
            // The byte order mark.
            _ if unit == 0xfeff => {}
            _ => self.push_byte(b'?'),
        }
    }

    fn push_byte(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\r' => self.end_line(),
            _ if self.line.len() < LONGEST_LINE => self.line.push(byte),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        self.lines += 1;
        let mut line = std::mem::take(&mut self.line);
        let read = String::from_utf8_lossy(&line);
        let mut text = plain(&read);
        let mut joined = 1;
        if let Some((start, lines)) = self.unfinished.take() {
            if continues(&text) {
                text = format!("{start} {text}").into();
                joined += lines;
            } else {
                self.push_line(&start, true);
            }
        }
        let may_be_event = has_sign(&text);
        if may_be_event && is_unfinished(&text) && joined < MOST_JOINED && text.len() < LONGEST_LINE
        {
            self.unfinished = Some((text.into_owned(), joined));
        } else {
            self.push_line(&text, may_be_event);
        }
        line.clear();
        self.line = line;
    }

    /// A whole line: any line may begin another boot, and few may be events.
    fn push_line(&mut self, line: &str, may_be_event: bool) {
        let (at_s, text) = split(line);
        let release = text.strip_prefix("Linux version ").and_then(|rest| rest.split(' ').next());
        let is_earlier =
            at_s.zip(self.segment.last_at_s).is_some_and(|(now, last)| now < last - OUT_OF_ORDER_S);
        if (release.is_some() || is_earlier) && !self.segment.log.is_empty() {
            let ended = std::mem::take(&mut self.segment);
            self.is_several_boots = true;
            if ended.is_judged() {
                self.judged = Some(ended);
            }
        }
        if let Some(release) = release {
            self.segment.release = Some(release.to_owned());
        }
        if !may_be_event {
            return;
        }
        let daemon = of_daemon(text);
        let Some(event) = event::parse(daemon.unwrap_or(text)) else { return };
        // The time of day of a daemon's line is on another scale than the kernel's stamps.
        let at_s = if daemon.is_some() { time_of_day_s(text) } else { at_s };
        if daemon.is_none() {
            self.segment.last_at_s = at_s.or(self.segment.last_at_s);
        }
        let text = daemon.unwrap_or(text).to_owned();
        self.segment.push(LogLine { at_s, text, event });
    }
}

impl LogSegment {
    fn push(&mut self, line: LogLine) {
        self.log.push_back(line);
        if self.log.len() > MAX_LINES {
            // A verdict has its figures after it: the oldest other line goes.
            let oldest = self.log.iter().position(|line| line.event == LogEvent::Other);
            self.log.remove(oldest.unwrap_or(0));
        }
    }

    fn is_judged(&self) -> bool {
        self.log.iter().any(|line| matches!(line.event, LogEvent::MarkedUnstable { .. }))
    }
}

/// By the byte order mark, or by which bytes are 0.
fn encoding(start: &[u8]) -> Encoding {
    let zeros = |at: usize| start.iter().skip(at).step_by(2).take(64).filter(|byte| **byte == 0);
    let many = start.len().min(128) / 4;
    match start {
        [0xff, 0xfe, ..] => Encoding::Utf16Little,
        [0xfe, 0xff, ..] => Encoding::Utf16Big,
        _ if start.len() >= 8 && zeros(1).count() > many => Encoding::Utf16Little,
        _ if start.len() >= 8 && zeros(0).count() > many => Encoding::Utf16Big,
        _ => Encoding::Utf8,
    }
}

/// Whether a line of the watchdog lacks the figure that ends it.
pub(super) fn is_unfinished(text: &str) -> bool {
    let lacks = |start: &str, ends: &[&str]| {
        text.split_once(start).is_some_and(|(_, rest)| !ends.iter().any(|end| rest.contains(end)))
    };
    // `clocksource:` or `clocksource: Clocksource 'tsc'`, and no more.
    let is_bare = split(text)
        .1
        .strip_prefix("clocksource:")
        .is_some_and(|rest| rest.trim().is_empty() || rest.trim_end().ends_with('\''));
    let has_counter = text.contains("_now:") || text.contains("_nsec:") || text.contains("_last:");
    let lacks_mask = || {
        !text.ends_with('>')
            && text.rsplit_once("mask:").is_none_or(|(_, mask)| mask.trim().is_empty())
    };
    is_bare
        || (has_counter && text.contains('\'') && lacks_mask())
        || (!text.ends_with('>')
            && lacks("timekeeping watchdog", &["nstable", "delay", "check", "ttempt", "read"]))
        || lacks("' skewed", &["interval of "])
}

/// Whether a line is the rest of the one before: it has neither a stamp nor a start of
/// its own.
fn continues(text: &str) -> bool {
    let (at_s, rest) = split(text);
    let starts = ["clocksource:", "tsc:", "TSC ", "sched_clock:", "Clocksource ", "hpet:"];
    at_s.is_none()
        && rest.len() == text.len()
        && !starts.iter().any(|start| text.starts_with(start))
}

/// A line without colour codes, control characters, quotes and prompts.
fn plain(line: &str) -> Cow<'_, str> {
    if line.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(without_quotes(line));
    }
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next_if_eq(&'[').is_some() {
                // CSI: up to its final byte.
                let _final = chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if c == '\t' {
            text.push(' ');
        } else if !c.is_control() && c != '\u{feff}' {
            text.push(c);
        }
    }
    Cow::Owned(without_quotes(&text).to_owned())
}

fn without_quotes(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(less) = ["> ", ">", "| ", "$ ", "# ", "- ", "kernel: "]
        .iter()
        .find_map(|mark| rest.strip_prefix(mark))
    {
        rest = less.trim_start();
    }
    rest
}

/// A time daemon's message, from where it begins, whatever stands before it.
pub(super) fn of_daemon(text: &str) -> Option<&str> {
    event::OF_DAEMONS.iter().find_map(|start| text.find(start)).map(|at| &text[at..])
}

/// The first time of day in a line, and the day of the month before it, s: enough for the
/// time between lines.
fn time_of_day_s(text: &str) -> Option<f64> {
    let words = || text.split([' ', 'T', 'Z', '+', ',']).filter(|word| !word.is_empty());
    let at = words().position(|word| word.split(':').count() == 3)?;
    let mut parts = words().nth(at)?.split(':');
    let mut part = || parts.next()?.parse::<f64>().ok().filter(|part| (0.0..61.0).contains(part));
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let date = words().take(at).last().unwrap_or_default();
    let day = date.rsplit('-').next()?.parse::<u32>().ok().filter(|day| (1..=31).contains(day));
    Some(f64::from(day.unwrap_or(0)) * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

#[cfg(test)]
mod tests;
