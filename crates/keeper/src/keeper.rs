//! The keeper: what was detected and measured in, what to do out.
//!
//! While nothing happens it polls local sources in each sample and servers
//! every [`Policy::poll_ns`]. A disruption, or a source that moved against the
//! clock though nothing was detected, invalidates all that was measured: all
//! sources are polled at once. After a step they are polled again, to verify
//! it.
//!
//! Within a sample, local sources come first. Where a disruption accounts for
//! what the host's clock among them shows, the clock is corrected before
//! servers reply. What else may move the clock, and how far, is in
//! docs/design/keep.md; the code of that table is `decision`'s `reason`.

mod act;
mod actions;
mod chronyd;
mod clock;
mod date;
mod decision;
mod disruption_budget;
mod leap;
mod lone_moves;
mod phase;
mod polled;
mod sources;
mod view;

use disruptions::{Disruption, Kind};
use pvclock::units::{LeapSecond, OffsetBound};

use crate::action::{Action, CorrectionCause, Refusal};
use crate::discipline::Adjustment;
use crate::policy::{Corrector, Policy};
use crate::source::Announced;
use crate::source::SourceKind;
use actions::Actions;
use chronyd::ChronydState;
use clock::KeeperClock;
pub use clock::{KeptBound, UNKNOWN_PPB};
use date::DateGuard;
use disruption_budget::DisruptionBudget;
use leap::LeapArming;
use phase::{KeeperPhase, Stage};
use polled::PolledSource;
pub use polled::RtcView;
use sources::KnownSources;
pub use view::{KeeperClockState, KeeperView, NextStep, SourceState, SourceView};

/// The state machine.
#[derive(Debug)]
pub struct Keeper {
    policy: Policy,
    sources: KnownSources,
    clock: KeeperClock,
    chronyd: ChronydState,
    leap: LeapArming,
    stage: Stage,
    /// Evidence comes in that is not classified yet.
    is_gathering: bool,
    /// Until when the machine may have been away, CLOCK_MONOTONIC, ns, of that evidence.
    away_until_ns: Option<u64>,
    actions: Actions,
    /// The last refusal, and when.
    refused: Option<(Refusal, u64)>,
}

impl Keeper {
    /// A keeper with this `policy` and `sources`, none of which it has polled.
    pub fn new(policy: Policy, sources: &[SourceKind]) -> Self {
        Self {
            sources: KnownSources::new(&policy, sources),
            actions: Actions::new(&policy),
            policy,
            clock: KeeperClock::default(),
            chronyd: ChronydState::default(),
            leap: LeapArming::default(),
            stage: Stage::Done,
            is_gathering: false,
            away_until_ns: None,
            refused: None,
        }
    }

    /// By how much the clock shows a time before this program was made, if it does: the
    /// machine was started without an RTC, or with one that had stopped. The host's
    /// first word is its date then, whatever else is configured, unless it is later by more
    /// than twice that.
    #[must_use]
    pub fn with_unset_clock(mut self, behind_ns: Option<u64>) -> Self {
        self.clock.date = DateGuard::new(behind_ns);
        self
    }

    /// The same, now: another process may have given it a date. To be called at each
    /// sample.
    pub fn unset_clock(&mut self, behind_ns: Option<u64>) {
        self.clock.date.update(behind_ns);
    }

    /// The kernel holds this from before: by a keeper that was killed, or a daemon that
    /// has ended. It is cleared once too few announce it.
    pub fn adopt_leap(&mut self, leap: Option<LeapSecond>) {
        self.leap.adopt(leap.filter(|_| self.is_kernels()));
    }

    /// Continues with this `policy` and these `sources`: each with its index so
    /// far, where it was known, so that its offsets and what was learnt of it
    /// still count. New ones are polled in the next sample. What is known of
    /// the clock stays; a round of chronyd's commands begins again.
    ///
    /// To be called between samples, when [`Keeper::next`] wants nothing more.
    pub fn reconfigure(&mut self, policy: Policy, sources: &[(SourceKind, Option<usize>)]) {
        self.sources.replace(&policy, sources);
        let limit = |policy: &Policy| (policy.burst, policy.min_interval_ns);
        if limit(&policy) == limit(&self.policy) {
            self.actions.clear();
        } else {
            self.actions = Actions::new(&policy);
        }
        self.policy = policy;
        self.chronyd = ChronydState::default();
        (self.refused, self.stage) = (None, Stage::Done);
    }

    /// From now on offsets beyond `step_threshold_ns` are stepped, and those up to
    /// `tolerance_ns` ignored: while nobody sees a step, for one.
    pub fn set_limits(&mut self, step_threshold_ns: u64, tolerance_ns: u64) {
        (self.policy.step_threshold_ns, self.policy.tolerance_ns) =
            (step_threshold_ns, tolerance_ns);
    }

    /// A sample was taken, and showed these disruptions, without our own
    /// steps.
    pub fn sample(&mut self, now_ns: u64, disruptions: &[Disruption]) {
        self.sources.iter_mut().for_each(PolledSource::begin);
        for disruption in disruptions {
            self.disturb_frequency(disruption);
            if disruption.kinds.contains(Kind::ClockSet) {
                self.end_by_set(disruption.at_monotonic_ns);
            }
            // A leap second leaves the clock right, and old offsets wrong.
            if disruption.kinds.only() == Some(Kind::ClockSet)
                && matches!(self.clock.phase, KeeperPhase::Settled | KeeperPhase::SetByAnother)
            {
                self.leave_as_set(now_ns);
            } else if disruption.kinds.may_be_wrong() || disruption.kinds.contains(Kind::LeapSecond)
            {
                self.take_disruption(now_ns, disruption);
            }
        }
        self.sources.poll_due(now_ns, &self.policy);
        self.stage = Stage::Local;
    }

    fn take_disruption(&mut self, now_ns: u64, disruption: &Disruption) {
        self.chronyd.disturb(disruption.at_monotonic_ns);
        // A rate that is known to be wrong shows as absences.
        self.sources.fast_polls_allowed |= !self.clock.discipline.is_wrong_rate_reported();
        // What the RTC alone shows is the host's word, which needs another's.
        let is_proven = !disruption.kinds.contains(Kind::RtcSet) || self.sources.needed().0 == 1;
        self.clock.disruption_budget.add(disruption, is_proven);
        if self.clock.is_told_since(disruption) {
            return;
        }
        if disruption.kinds.may_be_wrong() {
            self.clock.disrupted_ns = self.clock.disrupted_ns.max(disruption.at_monotonic_ns);
            self.forget_error();
        }
        self.disturb(now_ns, CorrectionCause::Disruption(disruption.kinds), None);
    }

    /// Whether there is evidence of a disruption that is not classified yet: until it is,
    /// no frequency is learnt of what a set of some microseconds may be in, no RTC shows an
    /// absence, and nothing measured until `away_until_ns`, CLOCK_MONOTONIC, bounds the error: by that
    /// evidence the machine may have been away until then.
    pub fn gathering(&mut self, is_gathering: bool, away_until_ns: Option<u64>) {
        (self.is_gathering, self.away_until_ns) = (is_gathering, away_until_ns);
    }

    /// The clock may be wrong for another reason than a disruption: all
    /// sources are polled at once.
    pub fn suspect(&mut self, now_ns: u64, cause: CorrectionCause) {
        self.chronyd.suspect(now_ns);
        self.clock.disrupted_ns = now_ns;
        self.clock.disturb(cause);
        self.forget_bound(now_ns);
    }

    /// What to do now; `None` until the next sample, or until a source sends
    /// its time unasked.
    pub fn next(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.actions.take_next() {
            return self.actions.begin(action);
        }
        loop {
            if let Some(index) = self.sources.next_local() {
                return Some(Action::Measure(vec![index]));
            }
            if let Some(action) = self.conclude_by_host(now_ns) {
                return self.actions.begin(action);
            }
            let servers = self.sources.next_servers(now_ns);
            if !servers.is_empty() {
                return Some(Action::Measure(servers));
            }
            if self.stage == Stage::Done {
                return None;
            }
            self.stage = Stage::Done;
            if let Some(action) = self.conclude(now_ns) {
                return self.actions.begin(action);
            }
            // No longer done where a source has to confirm its offset.
        }
    }

    /// What source `index` announced with its last offset. The time of day is
    /// `unix_ns`. To be called before [`Keeper::measured`].
    pub fn announced(&mut self, index: usize, announced: Announced, now_ns: u64, unix_ns: u64) {
        if self.sources.announce(index, announced, now_ns, unix_ns) {
            self.leap.announce(now_ns, unix_ns);
        }
    }

    /// The offset of source `index`: the reply to [`Action::Measure`], or sent
    /// unasked. `None`: it gave none that can be used.
    pub fn measured(&mut self, index: usize, now_ns: u64, offset: Option<OffsetBound>) {
        let Some(kind) = self.sources.get(index).map(|source| source.kind) else { return };
        // An RTC moves against a clock that is set as in an absence.
        if kind == SourceKind::Rtc && self.is_gathering {
            return;
        }
        if kind.is_local() {
            self.stage = Stage::Local;
        } else if self.stage == Stage::Done {
            self.stage = Stage::Servers;
        }
        let reply = offset.filter(|_| !self.leap.passes(now_ns));
        let phase = self.clock.phase;
        let has_moved = self.sources.take_reply(index, reply, phase, now_ns, &self.policy);
        if has_moved && !self.chronyd.is_stepping(now_ns) {
            if kind.is_server() {
                self.sources.poll_fast(now_ns, &self.policy);
            }
            self.disturb(now_ns, CorrectionCause::SourceMoved(kind), Some(index));
        }
    }

    /// The correction returned last was made, or failed.
    pub fn corrected(&mut self, now_ns: u64, is_made: bool) {
        match self.actions.take_pending() {
            // A failed one counts as well: it is not tried in each sample.
            Some(Action::Slew(by)) => {
                if is_made {
                    self.count_lone_move(&by, true, now_ns);
                }
                self.clock.slew(if is_made { by.by_ns } else { 0 }, now_ns);
            }
            Some(Action::Step(by)) if is_made => {
                self.count_lone_move(&by, false, now_ns);
                self.unlearn_unless_rtc(by.source);
                let is_shown = self.policy.corrector == Corrector::Kernel
                    && by.showing_time >= self.sources.needed().0;
                self.clock.step(&by, is_shown, now_ns);
                self.leap.step();
                self.sources.iter_mut().for_each(|source| source.shift(by.by_ns, now_ns));
                if self.policy.corrector == Corrector::Beside {
                    self.actions.add([Action::Restart]);
                }
            }
            Some(Action::Makestep { by, restart }) => {
                self.chronyd.note_command(now_ns, by, restart);
                if is_made {
                    self.unlearn_unless_rtc(by.source);
                    self.clock.correct();
                    // By how much chronyd steps, and when, only it knows.
                    let due_ns = self.chronyd.next_round_ns();
                    self.sources.iter_mut().for_each(|source| source.forget(due_ns));
                }
            }
            Some(Action::Discipline(by)) if is_made => {
                self.clock.discipline.note_adjustment(now_ns, by)
            }
            Some(Action::Discipline(_)) => self.clock.discipline.reset(),
            Some(Action::SetLeap(leap)) => {
                self.leap.note_set(leap, is_made, now_ns, self.policy.poll_ns);
            }
            _ => {}
        }
    }

    /// A step by what a source shows, unless that is the RTC, which shows time away alone.
    fn unlearn_unless_rtc(&mut self, source: usize) {
        if self.sources[source].kind != SourceKind::Rtc {
            self.sources.unlearn();
        }
    }

    /// Nothing measured before counts any more, but for the offset of `moved`.
    fn disturb(&mut self, now_ns: u64, cause: CorrectionCause, moved: Option<usize>) {
        self.clock.disturb(cause);
        self.sources.forget_all_but(moved, now_ns);
    }

    /// Whether a disruption is the step that [`Keeper::corrected`] reported.
    /// Call it once for each, before [`Keeper::sample`] is given the rest.
    pub fn is_own_step(&mut self, disruption: &Disruption) -> bool {
        if !matches!(disruption.kinds.only(), Some(Kind::ClockSet | Kind::LeapSecond)) {
            return false;
        }
        if self.chronyd.may_have_stepped(disruption.at_monotonic_ns) {
            // Whether the clock is right now is not left to the RTC.
            self.sources.iter_mut().for_each(PolledSource::poll_soon);
            return true;
        }
        self.clock.take_own_step(disruption)
    }

    /// Another process set the clock since it was measured, so nothing
    /// measured counts. Call this instead of [`Keeper::corrected`], or as a sample begins:
    /// the pending correction is cancelled. Corrections are relative; made on top
    /// of that setting this one would put the clock wrong. A clock that was right is left as
    /// it was set.
    pub fn was_set(&mut self, now_ns: u64) {
        self.actions.cancel(|_| false);
        self.end_by_set(now_ns);
        if matches!(self.clock.phase, KeeperPhase::Settled | KeeperPhase::SetByAnother) {
            self.clock.discipline.forget_rate();
            self.leave_as_set(now_ns);
            self.stage = Stage::Local;
            return;
        }
        self.clock.disruption_budget = DisruptionBudget::default();
        self.suspect(now_ns, CorrectionCause::Disruption(Kind::ClockSet.into()));
        self.disarm_leap();
    }

    /// The kernel itself moved the clock since it was measured, after a suspend or by a leap
    /// second: nobody set a date, and nothing measured counts. To be called as
    /// [`Keeper::was_set`] is.
    pub fn was_moved(&mut self, now_ns: u64, by: Kind) {
        self.actions.cancel(Action::rests_on_no_measurement);
        self.suspect(now_ns, CorrectionCause::Disruption(by.into()));
    }

    /// The same where chronyd corrects the clock: a set while it was told to step is its own,
    /// as far as is known. What was measured before is no sample to feed it with, and its
    /// round continues. Any other is as somebody's: what chronyd set right is found right, and
    /// a date is not taken back by our command.
    pub fn was_set_beside_chronyd(&mut self, now_ns: u64) {
        if !self.chronyd.is_stepping(now_ns) {
            return self.was_set(now_ns);
        }
        self.actions.cancel(|_| false);
        self.clock.error_bound = None;
        for source in self.sources.iter_mut() {
            source.forget(self.chronyd.next_round_ns());
            // An RTC does not show whether the clock is right now.
            source.unlearn();
            if source.kind.is_local() {
                source.want();
            }
        }
        self.stage = Stage::Local;
    }

    /// What no set of the clock leaves: a slew, a date that is missing, and what sources
    /// showed against the clock as it was. What a slew that was begun after the set moves
    /// would be taken for a frequency: it is ended for certain.
    fn end_by_set(&mut self, at_ns: u64) {
        if self.clock.end_slew(at_ns) {
            self.adjust(Some(Adjustment { frequency_ppb: None, slew_ns: Some(0) }));
        }
        self.clock.date.confirm_set();
        self.sources.unlearn();
    }

    /// Another process set a clock that was right, which [`Keeper::end_by_set`] knows.
    /// That is not undone; whether it is still right is measured.
    fn leave_as_set(&mut self, now_ns: u64) {
        self.chronyd.disturb(now_ns);
        self.disarm_leap();
        self.forget_error();
        self.disturb(now_ns, CorrectionCause::Disruption(Kind::ClockSet.into()), None);
        self.clock.disruption_budget = DisruptionBudget::default();
        self.clock.phase = KeeperPhase::SetByAnother;
        self.clock.owes_error = false;
    }

    /// The clock was set by another, and the kernel has lost what it was given.
    fn disarm_leap(&mut self) {
        let disarming = self.leap.disarm().filter(|_| self.is_kernels());
        self.actions.add(disarming);
    }
}

#[cfg(test)]
mod tests;
