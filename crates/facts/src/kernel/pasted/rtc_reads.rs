//! The RTC's time as `/sys/class/rtc/rtc0/since_epoch` shows it: an RTC that stands still gives the
//! same second twice.

use std::collections::VecDeque;

use crate::kernel::pasted::segment::LogSegment;
use crate::kernel::pasted::servers::stated;

/// An RTC counts whole seconds: so far apart two readings differ, s.
const APART_S: f64 = 2.0;

/// Readings, line by line.
#[derive(Debug, Default)]
pub(super) struct RtcReads {
    /// The file that the lines before name.
    file: Option<String>,
    /// They name several, whose clocks may show the same.
    are_several: bool,
    /// They have waited since they read it.
    has_waited: bool,
    /// For each reading to come, whether they waited before it.
    waits: VecDeque<bool>,
    /// They wait before each.
    is_repeated: bool,
    last: Option<(u64, String)>,
}

impl RtcReads {
    /// Takes a line, and adds to the log what two readings show.
    pub(super) fn push(&mut self, text: &str, is_about_time: bool, log: &mut LogSegment) {
        let is_command = (is_about_time && text.contains("since_epoch"))
            || (self.file.is_some() && text.contains("sleep "));
        if is_command {
            self.read_commands(text);
        }
        if is_command || self.file.is_none() {
            return;
        }
        let figure = text.split_ascii_whitespace().next();
        let Some(unix_s) = figure.and_then(|figure| figure.parse().ok()) else {
            *self = Self::default();
            return;
        };
        let is_apart = self.waits.pop_front().unwrap_or_default() || self.is_repeated;
        match self.last.replace((unix_s, text.trim().to_owned())) {
            Some((last_s, _)) if last_s == unix_s && self.are_several => *self = Self::default(),
            Some((last_s, line)) if last_s == unix_s => {
                let of = if is_apart { "rtc-stands" } else { "rtc-same-second" };
                log.push(stated(of, None, &line));
                *self = Self::default();
            }
            _ => {}
        }
    }

    /// Whether a wait is between two readings of one file.
    fn read_commands(&mut self, text: &str) {
        for command in text.split([';', '&']) {
            let names =
                command.split_ascii_whitespace().filter(|word| word.ends_with("since_epoch"));
            for name in names {
                self.waits.push_back(std::mem::take(&mut self.has_waited));
                let is_other = self.file.replace(name.into()).is_some_and(|file| file != name);
                self.are_several |= is_other || name.contains(['*', '?', '[', '{']);
            }
            self.has_waited |= self.file.is_some() && has_wait(command);
        }
        self.is_repeated |= self.has_waited && text.contains(" apart");
    }
}

/// `sleep 2`, `# twice, 3 s apart`
fn has_wait(text: &str) -> bool {
    let words: Vec<&str> = text.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
    let is_long = |s: &str| s.parse::<f64>().is_ok_and(|s| s >= APART_S);
    words.windows(2).any(|pair| pair[0] == "sleep" && is_long(pair[1]))
        || words.windows(3).any(|three| three[2] == "apart" && is_long(three[0]))
}
