//! The clock was set: by another process, by chronyd, or by the kernel itself.

use std::collections::VecDeque;

use disruptions::Kind;

use super::explained::Explained;
use super::polled::Polled;
use super::{Keeper, Phase, Stage};
use crate::action::{Action, Cause};

impl Keeper {
    /// Another process set the clock since it was measured, so nothing
    /// measured counts. Call this in place of [`Keeper::corrected`], or as a sample begins:
    /// the pending correction is cancelled. Corrections are relative; made on top
    /// of that setting this one would put the clock wrong. A clock that was right is left as
    /// it was set.
    pub fn was_set(&mut self, now_ns: u64) {
        self.cancel(|_| false);
        self.ended_by_a_set(now_ns);
        if matches!(self.phase, Phase::Settled | Phase::SetByAnother) {
            self.discipline.disrupted();
            self.set_by_another(now_ns);
            self.stage = Stage::Local;
            return;
        }
        self.explained = Explained::default();
        self.suspect(now_ns, Cause::Disruption(Kind::ClockSet.into()));
        self.disarm_leap();
    }

    /// The kernel itself moved the clock since it was measured, after a suspend or by a leap
    /// second: nobody set a date, and nothing measured counts. To be called as
    /// [`Keeper::was_set`] is.
    pub fn was_moved(&mut self, now_ns: u64, by: Kind) {
        self.cancel(is_right_still);
        self.suspect(now_ns, Cause::Disruption(by.into()));
    }

    /// The same where chronyd corrects the clock: a set while it was told to step is its own,
    /// as far as is known. What was measured before is no sample to feed it with, and its
    /// round goes on. Any other is as somebody's: what chronyd set right is found right, and a
    /// date is not taken back by our command.
    pub fn was_set_beside_chronyd(&mut self, now_ns: u64) {
        if !self.chronyd.is_stepping(now_ns) {
            return self.was_set(now_ns);
        }
        self.cancel(|_| false);
        self.known = None;
        for source in &mut self.sources {
            source.forget(self.chronyd.next_round_ns());
            // An RTC does not show whether the clock is right now.
            source.unlearn();
            if source.kind.is_local() {
                source.want();
            }
        }
        self.stage = Stage::Local;
    }

    /// What was to be carried out is not, but for what `keeps` says.
    fn cancel(&mut self, keeps: fn(&Action) -> bool) {
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = self.queued.drain(..).partition(keeps);
        self.queued = kept;
        let is_limited =
            |one: &Action| matches!(one, Action::Step(_) | Action::Makestep { restart: true, .. });
        let dropped = dropped.into_iter().chain(self.pending.take());
        dropped.filter(is_limited).for_each(|_| self.steps.give_back());
    }

    /// What no set of the clock leaves: a slew, a date that is missing, and what sources
    /// showed against the clock as it was.
    pub(super) fn ended_by_a_set(&mut self, at_ns: u64) {
        self.end_slew(at_ns);
        self.date.was_set();
        self.sources.iter_mut().for_each(Polled::unlearn);
    }

    /// Another process set a clock that was right, which [`Keeper::ended_by_a_set`] knows.
    /// That is not undone; whether it is right still is measured.
    pub(super) fn set_by_another(&mut self, now_ns: u64) {
        self.chronyd.disturbed(now_ns);
        self.disarm_leap();
        self.forget_error();
        self.disturb(now_ns, Cause::Disruption(Kind::ClockSet.into()), None);
        self.explained = Explained::default();
        self.phase = Phase::SetByAnother;
    }
}

/// Whether this rests on no measurement.
fn is_right_still(action: &Action) -> bool {
    match action {
        Action::Discipline(by) => by.frequency_ppb.is_none() && by.slew_ns == Some(0),
        Action::SetFigures { max_ns, .. } => max_ns.is_some(),
        Action::SetLeap(leap) => leap.is_none(),
        action => matches!(action, Action::Restart),
    }
}
