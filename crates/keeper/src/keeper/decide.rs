//! From what was measured to what is judged.

use super::polled::{Polled, SECOND_NS};
use super::{Keeper, Stage};
use crate::action::{Action, Refusal};
use crate::choice::{Candidate, Choice, choose};
use crate::offset::Offset;
use crate::source::SourceKind;

impl Keeper {
    /// Offsets measured before this do not count any more.
    pub(super) fn oldest_ns(&self, now_ns: u64) -> u64 {
        let for_ns = self.policy.poll_ns.saturating_mul(2).saturating_add(5 * SECOND_NS);
        now_ns.saturating_sub(for_ns)
    }

    /// What was measured, and of which scale it counts.
    pub(super) fn candidates(&self, now_ns: u64) -> impl Iterator<Item = Candidate> + Clone {
        let other = self.other_scale();
        let counts = move |one: &Candidate| {
            other != Some(self.sources[one.source].scale) || !self.is_near_leap(one, now_ns)
        };
        self.shown(now_ns).filter(counts)
    }

    /// What was measured.
    pub(super) fn shown(&self, now_ns: u64) -> impl Iterator<Item = Candidate> + Clone {
        let oldest_ns = self.oldest_ns(now_ns);
        let candidate = move |(index, source): (usize, &Polled)| {
            let offset = source.offset.filter(|offset| offset.at_monotonic_ns >= oldest_ns)?;
            let (kind, is_fresh) = (source.kind, source.is_fresh);
            Some(Candidate { source: index, kind, offset, is_fresh })
        };
        self.sources.iter().enumerate().filter_map(candidate)
    }

    /// Corrects by the host's clock what a disruption accounts for, where
    /// servers are to be polled: one that is unreachable costs a second.
    pub(super) fn decide_by_host(&mut self, now_ns: u64) -> Option<Action> {
        let is_server_wanted = self.sources.iter().any(|source| source.is_wanted);
        if !is_server_wanted || self.stage != Stage::Local {
            return None;
        }
        self.stage = Stage::Servers;
        let may = |kind: SourceKind| kind.is_local() && kind.needs_no_second();
        if !self.sources.iter().any(|source| may(source.kind)) {
            return None;
        }
        let candidates: Vec<Candidate> = self.candidates(now_ns).collect();
        let Choice::Of(selected) = choose(&candidates, self.needed().0, now_ns) else {
            return None;
        };
        let is_off = !selected.offset.is_within(self.policy.tolerance_ns);
        (may(selected.kind) && is_off && self.is_accounted_for(&selected.offset, now_ns))
            .then(|| self.judge(now_ns, &selected))?
    }

    /// Decides by all sources, and carries that out.
    pub(super) fn conclude(&mut self, now_ns: u64) -> Option<Action> {
        let candidates: Vec<Candidate> = self.candidates(now_ns).collect();
        match choose(&candidates, self.needed().0, now_ns) {
            Choice::Nothing => self.continue_round(now_ns).or_else(|| self.hold_over(now_ns)),
            Choice::Contradiction(selected) => {
                let correction = self.correction(&selected);
                self.refuse(now_ns, correction, Refusal::Contradiction)
            }
            Choice::Of(selected) => {
                self.watch_rate(now_ns, &selected);
                let action = self.judge(now_ns, &selected);
                if self.stage != Stage::Done || !self.is_to_be_fed(&selected, now_ns) {
                    return action;
                }
                self.queued.extend(action);
                Some(Action::FeedChronyd(selected.offset))
            }
        }
    }
}
