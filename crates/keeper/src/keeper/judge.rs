//! What to do about the selected offset: nothing, a step, a slew, or a refusal.

use units::OffsetBound;

use super::polled::SECOND_NS;
use super::{Keeper, Phase, Stage};
use crate::action::{Action, Cause, Correction, Refusal};
use crate::choice::Selected;
use crate::offset::Offset;
use crate::policy::Corrector;
use crate::slewing::{MOST_AT_ONCE_NS, SLEW_PPM};
use crate::source::SourceKind;

/// The same refusal is reported again after this.
const REPORTED_FOR_NS: u64 = 60 * SECOND_NS;

/// What a day of slewing corrects, 43.2 s: a clock that is further ahead is not
/// slewed.
const SLEWED_A_DAY_NS: u64 = 86_400 * SLEW_PPM * 1000;

impl Keeper {
    pub(super) fn judge(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        let correction = self.correction(selected);
        let offset = selected.offset;
        let is_worse =
            selected.kind == SourceKind::Rtc && self.selected.is_some_and(|it| it != selected.kind);
        if offset.is_within(self.policy.tolerance_ns) {
            // The RTC, right to a second, cannot verify a better one's step.
            return if is_worse {
                self.continue_round(now_ns)
            } else {
                self.settle(now_ns, &offset, correction)
            };
        }
        if self.is_beyond(selected) {
            let max_step_ns = self.policy.max_step_ns;
            return self.refuse(now_ns, correction, Refusal::BeyondMaxStep { max_step_ns });
        }
        let is_stepping = self.chronyd.is_stepping(now_ns);
        if is_worse && !is_stepping {
            if now_ns < self.chronyd.next_round_ns() {
                // The better one is not unreachable: it is polled then.
                return None;
            }
            return self.refuse(now_ns, correction, Refusal::WorseSource);
        }
        // A clock that chronyd is moving is not measured twice at one place.
        if !self.is_confirmed(selected) && !is_stepping {
            let source = &mut self.sources[selected.source];
            source.want();
            if source.is_wanted {
                self.stage = Stage::Servers;
                return None;
            }
            source.due_ns = source.due_ns.min(now_ns.saturating_add(SECOND_NS));
            return self.refuse(now_ns, correction, Refusal::Unconfirmed);
        }
        self.correct(now_ns, &offset, correction)
    }

    /// Corrects an offset that is real and too large.
    fn correct(&mut self, now_ns: u64, offset: &OffsetBound, by: Correction) -> Option<Action> {
        let is_back = by.by_ns < 0 && self.policy.never_backward;
        let is_step = by.by_ns.unsigned_abs() > self.policy.step_threshold_ns;
        match self.policy.corrector {
            Corrector::Kernel if is_step && !is_back => self.step(now_ns, by, Action::Step),
            Corrector::Kernel => self.slew(now_ns, offset, by),
            // chronyd slews by itself.
            Corrector::Chronyd { .. } if !is_step => {
                self.chronyd.done();
                None
            }
            Corrector::Chronyd { makestep: true, .. } if !is_back => self.makestep(now_ns, by),
            Corrector::Chronyd { .. } => self.refuse(now_ns, by, Refusal::LeftToChronyd),
        }
    }

    /// The clock is right.
    fn settle(&mut self, now_ns: u64, offset: &OffsetBound, by: Correction) -> Option<Action> {
        let was_settled = matches!(self.phase, Phase::Settled);
        (self.phase, self.refused) = (Phase::Settled, None);
        self.chronyd.done();
        self.select(by.source);
        let settled = (!was_settled).then_some(Action::Synchronised(by));
        let Some(left_ns) = self.slewing.map(|slewing| slewing.left_ns(now_ns)) else {
            return settled;
        };
        let at_end = OffsetBound { offset_ns: offset.offset_ns.saturating_sub(left_ns), ..*offset };
        if left_ns == 0 || at_end.is_within(self.policy.tolerance_ns) {
            return settled;
        }
        // A slew that would put it wrong again ends here.
        self.queued = settled;
        Some(Action::Slew(Correction { by_ns: 0, ..by }))
    }

    /// Whether the offset is beyond the largest step. A machine without an RTC
    /// starts in 1970, which its host, or two sources that agree, may correct.
    pub(super) fn is_beyond(&self, selected: &Selected) -> bool {
        let by_ns = selected.offset.offset_ns;
        let is_sure = selected.kind.needs_no_second() || selected.agreeing.0 >= 2;
        let is_start = self.phase.cause() == Some(Cause::Start) && by_ns > 0 && is_sure;
        by_ns.unsigned_abs() > self.policy.max_step_ns && !is_start
    }

    /// Whether two samples show it, or one of a source that needs one.
    fn is_confirmed(&self, selected: &Selected) -> bool {
        selected.kind.needs_no_second()
            || selected.fresh >= 2
            || self.sources[selected.source].in_a_row >= 2
    }

    /// Whether chronyd is fed this offset: it may select what it is fed.
    pub(super) fn is_to_be_fed(&self, selected: &Selected) -> bool {
        matches!(self.policy.corrector, Corrector::Chronyd { feed: true, .. })
            && selected.kind != SourceKind::Rtc
            && selected.offset.bound_ns <= self.policy.step_threshold_ns
            && !self.is_beyond(selected)
            && self.is_confirmed(selected)
    }

    /// Notes the kind of a source that the clock was corrected or verified by.
    /// The RTC drifts as this clock does: it shows what a disruption did, and
    /// must not undo what a better one did that has become unreachable.
    pub(super) fn select(&mut self, source: usize) {
        let kind = self.sources[source].kind;
        self.selected = Some(self.selected.map_or(kind, |best| best.min(kind)));
    }

    fn step(
        &mut self,
        now_ns: u64,
        by: Correction,
        how: impl FnOnce(Correction) -> Action,
    ) -> Option<Action> {
        match self.steps.take(now_ns) {
            Ok(()) => Some(how(by)),
            Err(wait_ns) => self.refuse(now_ns, by, Refusal::RateLimited { wait_ns }),
        }
    }

    /// Has chronyd step, unless it was just commanded. Servers are polled
    /// after the round, and not at their next poll. A round takes one of the
    /// steps allowed.
    fn makestep(&mut self, now_ns: u64, by: Correction) -> Option<Action> {
        if now_ns < self.chronyd.next_command_ns(now_ns) {
            let due_ns = self.chronyd.next_round_ns();
            for source in &mut self.sources {
                source.due_ns = source.due_ns.min(due_ns);
            }
            return None;
        }
        if self.chronyd.is_stepping(now_ns) {
            return Some(Action::Makestep { by, restart: false });
        }
        self.step(now_ns, by, |by| Action::Makestep { by, restart: true })
    }

    /// The next command of chronyd's round, if one is due.
    pub(super) fn continue_round(&self, now_ns: u64) -> Option<Action> {
        let by = self.chronyd.continues(now_ns)?;
        Some(Action::Makestep { by, restart: false })
    }

    fn slew(&mut self, now_ns: u64, offset: &OffsetBound, by: Correction) -> Option<Action> {
        let size_ns = by.by_ns.unsigned_abs();
        if size_ns > SLEWED_A_DAY_NS {
            let takes_s = size_ns / (SLEW_PPM * 1000);
            return self.refuse(now_ns, by, Refusal::TooFarAhead { takes_s });
        }
        if let Some(slewing) = self.slewing {
            let left_ns = slewing.left_ns(now_ns);
            let beyond = offset.offset_ns.saturating_sub(left_ns);
            let at_end = OffsetBound { offset_ns: beyond, ..*offset };
            let since_ns = now_ns.saturating_sub(slewing.since_ns);
            if since_ns < self.policy.min_interval_ns
                || slewing.is_long(by.by_ns, now_ns)
                || left_ns != 0 && at_end.is_within(self.policy.tolerance_ns)
            {
                return None;
            }
        }
        let by_ns = by.by_ns.clamp(-MOST_AT_ONCE_NS, MOST_AT_ONCE_NS);
        Some(Action::Slew(Correction { by_ns, ..by }))
    }

    pub(super) fn correction(&self, selected: &Selected) -> Correction {
        Correction {
            by_ns: selected.offset.offset_ns,
            bound_ns: selected.offset.bound_ns,
            source: selected.source,
            agreeing: selected.agreeing,
            cause: self.phase.cause(),
        }
    }

    pub(super) fn refuse(&mut self, now_ns: u64, by: Correction, why: Refusal) -> Option<Action> {
        let is_reported = self.refused.as_ref().is_some_and(|(last, at_ns)| {
            let is_recent = now_ns.saturating_sub(*at_ns) < REPORTED_FOR_NS;
            last.is_like(&why) && (is_recent || why.is_lasting())
        });
        if is_reported {
            return None;
        }
        self.refused = Some((why, now_ns));
        Some(Action::Refuse(by, why))
    }
}
