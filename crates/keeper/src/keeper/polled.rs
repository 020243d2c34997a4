//! A source as the keeper polls it: when, how often, and its last offset.

use units::OffsetBound;

use crate::offset::Offset;
use crate::source::SourceKind;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Polls of one source in one sample: one, and one to confirm.
const POLLS_PER_SAMPLE: u32 = 2;

#[derive(Debug)]
pub(super) struct Polled {
    pub(super) kind: SourceKind,
    /// When it is to be polled next.
    pub(super) due_ns: u64,
    /// It is to be polled in this sample.
    pub(super) is_wanted: bool,
    /// How often it was polled in this sample.
    pub(super) polls: u32,
    /// It replied in this sample.
    pub(super) is_fresh: bool,
    /// Offsets in a row that agree.
    pub(super) in_a_row: u32,
    failures: u32,
    /// Worse kinds agreed against it in the last decision.
    pub(super) is_outvoted: bool,
    /// The last one since time was disturbed.
    pub(super) offset: Option<OffsetBound>,
}

impl Polled {
    pub(super) fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            due_ns: 0,
            is_wanted: false,
            polls: 0,
            is_fresh: false,
            in_a_row: 0,
            failures: 0,
            is_outvoted: false,
            offset: None,
        }
    }

    /// A sample begins.
    pub(super) fn begin(&mut self) {
        (self.is_fresh, self.polls) = (false, 0);
    }

    /// Its offset does not count any more: poll it from `due_ns` on.
    pub(super) fn forget(&mut self, due_ns: u64) {
        let (polls, is_outvoted) = (self.polls, self.is_outvoted);
        let due_ns = if self.kind.is_local() { 0 } else { due_ns };
        *self = Self { due_ns, polls, is_outvoted, ..Self::new(self.kind) };
    }

    /// The clock was stepped: its offset is smaller by that. Poll it again to
    /// verify the step.
    pub(super) fn stepped(&mut self, by_ns: i64, now_ns: u64) {
        (self.due_ns, self.is_fresh) = (now_ns, false);
        if let Some(offset) = &mut self.offset {
            offset.offset_ns = offset.offset_ns.saturating_sub(by_ns);
        }
    }

    /// Polls it in the next sample.
    pub(super) fn poll_soon(&mut self) {
        self.due_ns = 0;
    }

    /// Polls it in this sample, up to [`POLLS_PER_SAMPLE`].
    pub(super) fn want(&mut self) {
        self.is_wanted = !self.kind.is_pushed() && self.polls < POLLS_PER_SAMPLE;
    }

    /// It is polled now.
    pub(super) fn poll(&mut self) {
        (self.is_wanted, self.polls) = (false, self.polls + 1);
    }

    /// It replied; whether it has moved against the clock.
    pub(super) fn replied(&mut self, offset: OffsetBound, now_ns: u64, poll_ns: u64) -> bool {
        let has_moved = self.offset.is_some_and(|earlier| !offset.agrees_with(&earlier));
        self.in_a_row = if has_moved { 1 } else { self.in_a_row.saturating_add(1) };
        (self.failures, self.is_fresh, self.offset) = (0, true, Some(offset));
        self.wait(now_ns, poll_ns);
        has_moved
    }

    /// It gave no usable offset: poll it again soon, then less and less often,
    /// as a network may need some seconds.
    pub(super) fn failed(&mut self, now_ns: u64, poll_ns: u64) {
        let soon_ns = SECOND_NS.saturating_mul(1 << self.failures.min(30));
        self.failures = self.failures.saturating_add(1);
        self.wait(now_ns, soon_ns.min(poll_ns));
    }

    /// Local ones are due in each sample all the same. Another one, polled
    /// together with this, may have wanted it polled again; it just was.
    fn wait(&mut self, now_ns: u64, wait_ns: u64) {
        self.is_wanted = false;
        let wait_ns = if self.kind.is_local() { 0 } else { wait_ns };
        self.due_ns = now_ns.saturating_add(wait_ns);
    }
}
