//! A source as the keeper asks it: when, how often, and what it said.

use crate::source::{Reading, SourceKind};

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Times that a source is asked in one look: once, and to confirm.
const ASKED_A_LOOK: u32 = 2;

#[derive(Debug)]
pub(super) struct Source {
    pub(super) kind: SourceKind,
    /// It is to be asked from this time on.
    pub(super) due_ns: u64,
    /// It is to be asked in this look.
    pub(super) is_wanted: bool,
    /// How often it was asked in this look.
    pub(super) asked: u32,
    /// It answered in this look.
    pub(super) is_fresh: bool,
    /// Readings in a row that agree.
    pub(super) in_a_row: u32,
    failures: u32,
    /// Worse kinds agreed against it when it was last decided.
    pub(super) is_outvoted: bool,
    /// The last since time was last disturbed.
    pub(super) reading: Option<Reading>,
}

impl Source {
    pub(super) fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            due_ns: 0,
            is_wanted: false,
            asked: 0,
            is_fresh: false,
            in_a_row: 0,
            failures: 0,
            is_outvoted: false,
            reading: None,
        }
    }

    /// A look begins.
    pub(super) fn begin(&mut self) {
        (self.is_fresh, self.asked) = (false, 0);
    }

    /// What it said is of no use any more: ask again from `due_ns` on.
    pub(super) fn forget(&mut self, due_ns: u64) {
        let (asked, is_outvoted) = (self.asked, self.is_outvoted);
        let due_ns = if self.kind.is_local() { 0 } else { due_ns };
        *self = Self { due_ns, asked, is_outvoted, ..Self::new(self.kind) };
    }

    /// The clock was stepped: what it said still holds, from there. Ask again
    /// to see that it was right.
    pub(super) fn stepped(&mut self, by_ns: i64, now_ns: u64) {
        (self.due_ns, self.is_fresh) = (now_ns, false);
        if let Some(reading) = &mut self.reading {
            reading.offset_ns = reading.offset_ns.saturating_sub(by_ns);
        }
    }

    /// Has it asked in the next look.
    pub(super) fn ask_soon(&mut self) {
        self.due_ns = 0;
    }

    /// Has it asked in this look, unless it was asked enough.
    pub(super) fn want(&mut self) {
        self.is_wanted = !self.kind.is_told() && self.asked < ASKED_A_LOOK;
    }

    /// It is asked now.
    pub(super) fn ask(&mut self) {
        (self.is_wanted, self.asked) = (false, self.asked + 1);
    }

    /// It said something; whether it has moved against the clock.
    pub(super) fn answered(&mut self, reading: Reading, now_ns: u64, poll_ns: u64) -> bool {
        let has_moved = self.reading.is_some_and(|earlier| !reading.agrees_with(&earlier));
        self.in_a_row = if has_moved { 1 } else { self.in_a_row.saturating_add(1) };
        (self.failures, self.is_fresh, self.reading) = (0, true, Some(reading));
        self.wait(now_ns, poll_ns);
        has_moved
    }

    /// It said nothing to go by: ask again soon, then less and less, as a
    /// network may need some seconds.
    pub(super) fn failed(&mut self, now_ns: u64, poll_ns: u64) {
        let soon_ns = SECOND_NS.saturating_mul(1 << self.failures.min(30));
        self.failures = self.failures.saturating_add(1);
        self.wait(now_ns, soon_ns.min(poll_ns));
    }

    /// Local ones are asked at each look all the same. Another that was asked
    /// together with it may have had news, on which it has just spoken.
    fn wait(&mut self, now_ns: u64, wait_ns: u64) {
        self.is_wanted = false;
        let wait_ns = if self.kind.is_local() { 0 } else { wait_ns };
        self.due_ns = now_ns.saturating_add(wait_ns);
    }
}
