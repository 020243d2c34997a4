//! New settings for a keeper that runs, without losing what it has learnt.

use std::collections::VecDeque;

use super::chronyd::Chronyd;
use super::polled::Polled;
use super::{Keeper, Stage, request_limit};
use crate::policy::Policy;
use crate::rate_limit::RateLimit;
use crate::source::SourceKind;

impl Keeper {
    /// Goes on with this `policy` and these `sources`: each with its index so
    /// far, where it was known, so that its offsets and what was learnt of it
    /// still count. New ones are polled in the next sample. What is known of
    /// the clock stays; a round of chronyd's commands begins anew.
    ///
    /// To be called between samples, when [`Keeper::next`] wants nothing more.
    pub fn reconfigure(&mut self, policy: Policy, sources: &[(SourceKind, Option<usize>)]) {
        let mut known: Vec<_> = std::mem::take(&mut self.sources).into_iter().map(Some).collect();
        let mut polled = |&(kind, was): &(SourceKind, Option<usize>)| {
            let learnt = was.and_then(|index| known.get_mut(index)?.take());
            learnt.filter(|one| one.kind == kind).unwrap_or_else(|| Polled::new(kind))
        };
        self.sources = sources.iter().map(&mut polled).collect();
        let kinds = sources.iter().map(|(kind, _)| *kind);
        self.requests = request_limit(&policy, kinds);
        if (policy.burst, policy.min_interval_ns)
            != (self.policy.burst, self.policy.min_interval_ns)
        {
            self.steps = RateLimit::new(policy.burst, policy.min_interval_ns);
        }
        self.policy = policy;
        // These name sources by their index.
        (self.pending, self.queued) = (None, VecDeque::new());
        self.chronyd = Chronyd::default();
        (self.refused, self.stage) = (None, Stage::Done);
    }
}
