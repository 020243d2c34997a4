//! What must hold of each guest, looked at whenever its observer reads its clocks: a guest
//! without one is looked at by its error alone.

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// CLOCK_MONOTONIC does not go back.
    Monotonic,
    /// The largest error that the keeper reports to the kernel is no smaller than
    /// the error, while fewer than half of the servers lie; while one lies, less twice the
    /// bound of the worst server.
    StatedBound,
    /// No correction by the keeper leaves the clock further from the truth than it
    /// was, or than twice the bounds of those that are right.
    NeverWorse,
    /// A restore steps the page's clock by no more than its plan says.
    PlannedStep,
    /// The scenario's limit of the error.
    Error,
    /// The scenario's limit of the time to be right.
    Recovery,
}

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, ns since the start.
    pub at_ns: i64,
    /// What was seen, ns.
    pub seen_ns: i64,
    /// What was allowed, ns.
    pub allowed_ns: i64,
}

/// The checks of one guest.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) first: Option<Violation>,
    monotonic_ns: Option<i128>,
}

impl Checks {
    /// Holds a size to what is allowed.
    pub(crate) fn at_most(&mut self, promise: Promise, at_ns: i64, seen_ns: i64, allowed_ns: i64) {
        if seen_ns > allowed_ns && self.first.is_none() {
            self.first = Some(Violation { promise, at_ns, seen_ns, allowed_ns });
        }
    }

    /// CLOCK_MONOTONIC was read.
    pub(crate) fn monotonic(&mut self, at_ns: i64, monotonic_ns: i128) {
        let back_ns = self.monotonic_ns.replace(monotonic_ns).unwrap_or(0) - monotonic_ns;
        let back_ns = i64::try_from(back_ns.max(0)).unwrap_or(i64::MAX);
        self.at_most(Promise::Monotonic, at_ns, back_ns, 0);
    }

    /// The guest boots.
    pub(crate) fn boot(&mut self) {
        self.monotonic_ns = None;
    }
}
