//! One boot's part of a log.

use std::collections::VecDeque;

use crate::kernel::MAX_LINES;
use crate::kernel::{LogEvent, LogLine};

/// One boot's part of the log.
#[derive(Debug, Default)]
pub(super) struct LogSegment {
    pub(super) log: VecDeque<LogLine>,
    /// Before this one all are of a known form.
    first_other: usize,
    pub(super) release: Option<String>,
}

pub(super) fn rate(line: &LogLine) -> Option<u64> {
    if let LogEvent::TscFrequency { hz, refined: false } = line.event { Some(hz) } else { None }
}

/// Whether two boots' rates may be of one CPU: they differ by less than 5 %.
pub(super) fn is_same_cpu(one: Option<u64>, other: Option<u64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.abs_diff(other) < one / 20)
}

impl LogSegment {
    pub(super) fn push(&mut self, line: LogLine) {
        self.log.push_back(line);
        if self.log.len() > MAX_LINES {
            // A verdict has its figures after it: the oldest other line goes.
            let rest = self.log.range(self.first_other..);
            self.first_other += rest.take_while(|line| line.event != LogEvent::Other).count();
            let is_other = self.first_other < self.log.len();
            self.log.remove(if is_other { self.first_other } else { 0 });
            self.first_other = self.first_other.min(self.log.len());
        }
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.log.iter().any(|line| line.event.is_fault())
    }
}
