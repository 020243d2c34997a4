//! What the driver is to carry out, and how many steps that may be.

use std::collections::VecDeque;

use crate::action::Action;
use crate::policy::Policy;
use crate::rate_limit::RateLimit;

/// The action in progress, and those after it.
#[derive(Debug)]
pub(super) struct Actions {
    /// What the driver carries out now.
    pending: Option<Action>,
    /// What it carries out next.
    queued: VecDeque<Action>,
    pub(super) steps: RateLimit,
}

impl Actions {
    pub(super) fn new(policy: &Policy) -> Self {
        let steps = RateLimit::new(policy.burst, policy.min_interval_ns);
        Self { pending: None, queued: VecDeque::new(), steps }
    }

    /// Carries these out after those before.
    pub(super) fn add(&mut self, actions: impl IntoIterator<Item = Action>) {
        self.queued.extend(actions);
    }

    /// Carries this out before those that wait.
    pub(super) fn add_first(&mut self, action: Action) {
        self.queued.push_front(action);
    }

    /// The next of those that wait.
    pub(super) fn take_next(&mut self) -> Option<Action> {
        self.queued.pop_front()
    }

    /// The driver carries this out now.
    pub(super) fn begin(&mut self, action: Action) -> Option<Action> {
        self.pending = Some(action.clone());
        Some(action)
    }

    /// The driver has carried it out, or could not.
    pub(super) fn take_pending(&mut self) -> Option<Action> {
        self.pending.take()
    }

    /// Drops all, as new settings may name other sources.
    pub(super) fn clear(&mut self) {
        (self.pending, self.queued) = (None, VecDeque::new());
    }

    /// Of those that wait, keeps these.
    pub(super) fn retain(&mut self, keeps: impl Fn(&Action) -> bool) {
        self.queued.retain(keeps);
    }

    /// Cancels what is in progress, and of what waits all but these. A step that is not made
    /// does not count.
    pub(super) fn cancel(&mut self, keeps: fn(&Action) -> bool) {
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = self.queued.drain(..).partition(keeps);
        self.queued = kept;
        let is_limited = |action: &Action| {
            matches!(action, Action::Step(_) | Action::Makestep { restart: true, .. })
        };
        let dropped = dropped.into_iter().chain(self.pending.take());
        dropped.filter(is_limited).for_each(|_| self.steps.give_back());
    }
}
