//! A log as somebody has it: a file of dmesg, journalctl, syslog, a serial console or a daemon, or
//! a forum's or a mail's paste of one. Bytes in, lines about clocks out, in bounded memory.

mod held;
mod printed;
mod rtc_reads;
mod segment;
mod servers;
mod stamps;

use std::borrow::Cow;

use crate::kernel::catalogue::{CATALOGUE, Reading, Words, is_message, is_source};
use crate::kernel::encoding::{Encoding, START, encoding, no_text, push_unit};
use crate::kernel::pasted::held::{BROKEN_LINE, Held, LONGEST_MESSAGE, MOST_JOINED, is_open};
use crate::kernel::pasted::printed::PrintedLines;
use crate::kernel::pasted::rtc_reads::RtcReads;
use crate::kernel::pasted::segment::{LogSegment, is_same_cpu, rate};
use crate::kernel::pasted::servers::{ServerTables, is_output};
use crate::kernel::pasted::stamps::Stamps;
use crate::kernel::{LogEvent, LogLine, line, plain};

pub use self::printed::PrintedTimes;
pub use self::stamps::StampsBack;

/// No line of a log is longer, bytes, with a journal's fields in it; the rest is left out.
const LONGEST_LINE: usize = 16_384;

/// What has no line's end for so long is no log, bytes.
const ENDLESS_LINE: u64 = 1 << 24;

/// So much is read at most, bytes.
const MOST_BYTES: u64 = 1 << 32;

/// So many lines about the TSC's rate are kept of other boots.
const MOST_BOOTS: usize = 64;

/// A boot takes so long until its log is written, s.
const BOOT_S: f64 = 60.0;

/// How many lines about time that cannot be judged are kept.
const UNREAD_KEPT: usize = 10;

/// Reads a log piece by piece.
#[derive(Debug, Default)]
pub struct PastedLog {
    /// The first bytes, until they show the encoding: what a log is does not depend on how it is
    /// cut into pieces.
    start: Vec<u8>,
    encoding: Encoding,
    half: Option<u8>,
    line: Vec<u8>,
    /// Bytes since the last line's end.
    since_end: u64,
    bytes: u64,
    /// A line that may lack its end, which a mail or a terminal breaks off.
    held: Option<Held>,
    segment: LogSegment,
    /// An earlier boot that shows a fault.
    faulty: Option<LogSegment>,
    /// What other boots measured of the TSC's rate.
    rates: Vec<LogLine>,
    is_several_boots: bool,
    lines: u64,
    stamps: Stamps,
    printed: PrintedLines,
    servers: ServerTables,
    rtc_reads: RtcReads,
    unread_lines: u64,
    trouble_lines: u64,
    mentions: u64,
    unread: Vec<String>,
    stopped: Option<&'static str>,
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
    /// Whether the boot of the lines is not the log's last.
    pub is_earlier_boot: bool,
    /// All lines, about clocks or not.
    pub lines: u64,
    /// How many lines have a word about time and no form that can be judged.
    pub unread_lines: u64,
    /// How many of these have a word of a fault.
    pub trouble_lines: u64,
    /// How many other lines have a word about time, in prose, source or commands.
    pub mentions: u64,
    /// The first of them, those with such a word before the others.
    pub unread: Vec<String>,
    /// Where the times of day before the lines go back.
    pub stamps_back: Option<StampsBack>,
    /// What times show that are printed for themselves.
    pub printed: Vec<PrintedTimes>,
    /// How many lines print one.
    pub printed_lines: u64,
    /// Why the log was not read to its end.
    pub stopped: Option<&'static str>,
}

/// Where a line ends. Bytes are looked at in blocks, as the compiler takes those at once.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let has_end = |block: &[u8]| block.iter().fold(false, |any, byte| any | is_end(byte));
    let start = bytes.chunks(BLOCK).position(has_end)? * BLOCK;
    Some(start + bytes[start..].iter().position(is_end)?)
}

impl PastedLog {
    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.encoding != Encoding::Undecided {
            return self.push_encoded(bytes);
        }
        self.start.extend_from_slice(bytes);
        if self.start.len() >= START {
            self.decide();
        }
    }

    /// Finds out what the first bytes are, and reads them.
    fn decide(&mut self) {
        let bytes = std::mem::take(&mut self.start);
        let start = &bytes[..bytes.len().min(START)];
        self.encoding = encoding(start);
        self.stopped = no_text(start, self.encoding);
        self.push_encoded(&bytes);
    }

    fn push_encoded(&mut self, bytes: &[u8]) {
        if self.is_full() {
            return;
        }
        self.bytes += bytes.len() as u64;
        if self.encoding == Encoding::Utf8 {
            self.push_text(bytes);
        } else {
            let mut text = Vec::with_capacity(bytes.len() / 2);
            for &byte in bytes {
                match self.half.take() {
                    None => self.half = Some(byte),
                    Some(first) if self.encoding == Encoding::Utf16Little => {
                        push_unit(&mut text, u16::from_le_bytes([first, byte]));
                    }
                    Some(first) => push_unit(&mut text, u16::from_be_bytes([first, byte])),
                }
            }
            self.push_text(&text);
        }
        if self.since_end > ENDLESS_LINE {
            self.stopped = Some("it has a line without end");
        } else if self.bytes > MOST_BYTES {
            self.stopped = Some("it has more than 4 GiB");
        }
    }

    /// Whether no more bytes are read: there is no end to them, or they are no text.
    pub fn is_full(&self) -> bool {
        self.stopped.is_some()
    }

    /// All that was found.
    pub fn finish(mut self) -> Pasted {
        if self.encoding == Encoding::Undecided {
            self.decide();
        }
        self.end_line();
        self.release_held();
        self.servers.end(&mut self.segment);
        if let Some(text) = self.servers.unread.take() {
            let words = CATALOGUE.words_of(line::split(&text).text);
            self.quote(&text, words.trouble);
        }
        let is_earlier_boot = self.faulty.is_some() && !self.segment.is_faulty();
        let segment = match self.faulty {
            Some(faulty) if is_earlier_boot => faulty,
            _ => self.segment,
        };
        // A boot whose rate differs from the others' shows in their comparison alone.
        let own = segment.log.iter().find_map(rate);
        let mut log = self.rates;
        log.retain(|line| is_same_cpu(own, rate(line)) && !segment.log.contains(line));
        log.extend(segment.log);
        let sets = |line: &LogLine| line.text.contains("clock synchronization");
        Pasted {
            printed_lines: self.printed.lines,
            printed: self.printed.finish(self.stamps.first_forward.take()),
            stamps_back: self.stamps.finish(log.iter().any(sets)),
            log,
            release: segment.release,
            is_several_boots: self.is_several_boots,
            is_earlier_boot,
            lines: self.lines,
            unread_lines: self.unread_lines,
            trouble_lines: self.trouble_lines,
            mentions: self.mentions,
            unread: self.unread,
            stopped: self.stopped,
        }
    }

    fn push_text(&mut self, mut bytes: &[u8]) {
        while let Some(at) = line_end(bytes) {
            self.extend_line(&bytes[..at]);
            self.end_line();
            bytes = &bytes[at + 1..];
        }
        self.extend_line(bytes);
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.since_end += bytes.len() as u64;
    }

    fn end_line(&mut self) {
        let length = std::mem::take(&mut self.since_end);
        if self.line.is_empty() {
            return;
        }
        // Quoted-printable breaks a line after at most 76 signs.
        if (70..=76).contains(&length) && self.line.last() == Some(&b'=') {
            self.line.pop();
            return;
        }
        self.lines += 1;
        let mut line = std::mem::take(&mut self.line);
        let is_plain = plain::is_printable(&line);
        let is_sign = |byte: u8| (byte == b'=') | (byte == b'&') | (byte == b'{');
        let is_encoded = line.iter().fold(false, |any, byte| any | is_sign(*byte));
        match std::str::from_utf8(&line) {
            Ok(text) if is_plain && !is_encoded && !text.starts_with("MESS") => {
                self.take_line(text);
            }
            text => {
                let text = text.map_or_else(|_| String::from_utf8_lossy(&line), Cow::Borrowed);
                let decoded = plain::without_printable_quotes(&text);
                self.take_line(&plain::plain(decoded.as_deref().unwrap_or(&text)));
            }
        }
        line.clear();
        self.line = line;
    }

    /// One line, or the rest of the one before.
    fn take_line(&mut self, text: &str) {
        let scan = CATALOGUE.scan(text);
        self.printed.push(text, scan.names_other_clock, || self.stamps.last_line());
        self.stamps.push(text);
        self.rtc_reads.push(text, scan.is_about_time, &mut self.segment);
        if self.servers.push(text, &mut self.segment) {
            return self.release_held();
        }
        if let Some(held) = self.held.take() {
            match held.join(text, &scan) {
                Some(joined) => return self.hold_or_take(joined),
                None => self.take_held(held),
            }
        }
        if !scan.has_rows() && !scan.is_about_time && text.len() < BROKEN_LINE {
            return;
        }
        let mut reading = Reading::default();
        if scan.has_rows() {
            let line = line::split(text);
            reading = CATALOGUE.read(line.text, line.program);
            if !is_open(text, &reading) {
                let is_of_use = reading.event.is_some() || scan.is_about_time;
                if is_of_use {
                    self.take_message(text, &line, reading);
                }
                return;
            }
        }
        self.hold_or_take(Held::new(text.to_owned(), reading, &scan, 1));
    }

    /// Waits for the line's rest where it may have one.
    fn hold_or_take(&mut self, held: Held) {
        if is_open(&held.text, &held.reading) && held.lines < MOST_JOINED {
            self.held = Some(held);
        } else {
            self.take_held(held);
        }
    }

    fn release_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.take_held(held);
        }
    }

    fn take_held(&mut self, held: Held) {
        if held.reading.event.is_some() || held.is_about_time {
            self.take_message(&held.text, &line::split(&held.text), held.reading);
        }
    }

    /// A whole message.
    fn take_message(&mut self, text: &str, line: &line::Line<'_>, reading: Reading) {
        let is_of_kernel = CATALOGUE.is_of_kernel(&reading);
        let words = match reading.event {
            None | Some(LogEvent::Other) => CATALOGUE.words_of(line.text),
            _ => Words::default(),
        };
        let event = match reading.event {
            None if !is_message(line, words) => {
                self.mentions += u64::from(!words.other_clocks);
                return;
            }
            Some(LogEvent::Stated { .. }) if is_source(text) => {
                self.mentions += 1;
                return;
            }
            known => known,
        };
        if matches!(event, None | Some(LogEvent::Other)) {
            self.quote(text, words.trouble);
        }
        let Some(event) = event else { return };
        if let LogEvent::Boot { release } = event {
            return self.begin_boot(release, line.day_s);
        }
        // The time of day of a daemon's line is on another scale than the kernel's stamps.
        let at_s = if is_of_kernel { line.at_s } else { line.day_s.or(line.at_s) };
        let is_whole = is_of_kernel || matches!(event, LogEvent::Stated { .. });
        let message = if is_whole { line.text } else { &line.text[reading.start..] };
        let text = line::first_chars(message, LONGEST_MESSAGE).to_owned();
        self.segment.push(LogLine { at_s, text, event });
    }

    /// Keeps a line that is about time and cannot be judged; first those that report trouble.
    fn quote(&mut self, text: &str, is_trouble: bool) {
        let at = if is_trouble { self.trouble_lines as usize } else { self.unread.len() };
        if at < UNREAD_KEPT {
            let quoted = line::first_chars(text.trim(), 200).to_owned();
            self.unread.insert(at.min(self.unread.len()), quoted);
            self.unread.truncate(UNREAD_KEPT);
        }
        self.unread_lines += 1;
        self.trouble_lines += u64::from(is_trouble);
    }

    fn begin_boot(&mut self, release: Option<String>, day_s: Option<f64>) {
        // In syslog the kernel's lines follow those of programs that ran before syslogd.
        let is_near = |line: &LogLine| {
            is_output(line)
                || line.at_s.zip(day_s).is_some_and(|(at_s, day_s)| (day_s - at_s).abs() < BOOT_S)
        };
        if !self.segment.log.iter().all(is_near) {
            let ended = std::mem::take(&mut self.segment);
            self.is_several_boots = true;
            let rates = ended.log.iter().filter(|line| rate(line).is_some());
            let room = MOST_BOOTS.saturating_sub(self.rates.len());
            self.rates.extend(rates.take(room).cloned());
            if ended.is_faulty() {
                self.faulty = Some(ended);
            }
        }
        self.segment.release = release.or(self.segment.release.take());
    }
}

#[cfg(test)]
mod tests;
