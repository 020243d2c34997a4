//! A decision carried out: nothing, a step, a slew, or a refusal.

use units::OffsetBound;

use super::date::Date;
use super::decision::Decision;
use super::explained::Explained;
use super::polled::{Polled, SECOND_NS};
use super::{Keeper, Phase, Stage};
use crate::action::{Action, Cause, Correction, Refusal};
use crate::choice::Selected;
use crate::offset::Offset;
use crate::policy::Corrector;
use crate::source::SourceKind;

/// The same refusal is reported again after this.
const REPORTED_FOR_NS: u64 = 60 * SECOND_NS;

impl Keeper {
    /// Decides about the selected offset, and carries that out.
    pub(super) fn judge(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        let decision = self.decide_selected(now_ns, selected);
        let by = self.correction(selected);
        let is_slewed = matches!(
            decision,
            Decision::Slew(_)
                | Decision::KeepSlew(_)
                | Decision::LeaveToDaemon
                | Decision::Refuse(Refusal::TooFarAhead { .. })
        );
        if is_slewed && !self.is_step(by.by_ns) {
            self.note(selected);
        }
        match decision {
            Decision::Wait | Decision::Leave => None,
            Decision::Settle => self.settle(now_ns, selected),
            Decision::PollStale(_) => {
                self.sources.iter_mut().filter(|source| !source.is_fresh).for_each(Polled::want);
                self.stage = Stage::Servers;
                None
            }
            Decision::Confirm => self.confirm(now_ns, by),
            Decision::Step => self.take_step(now_ns, Action::Step(by)),
            Decision::Makestep { restart: true } => {
                self.take_step(now_ns, Action::Makestep { by, restart: true })
            }
            Decision::Makestep { restart: false } => Some(Action::Makestep { by, restart: false }),
            Decision::AwaitChronyd => {
                // Servers are polled after the round, and not at their next poll.
                let due_ns = self.chronyd.next_round_ns();
                for source in &mut self.sources {
                    source.due_ns = source.due_ns.min(due_ns);
                }
                None
            }
            Decision::Slew(by_ns) => {
                self.learn_rate(now_ns, selected);
                let error = self.report_error(now_ns, selected, true);
                self.queued.extend(error);
                Some(Action::Slew(Correction { by_ns, ..by }))
            }
            Decision::KeepSlew(left_ns) => self.keep_slew(now_ns, selected, left_ns),
            Decision::LeaveToDaemon if self.policy.corrector == Corrector::Beside => {
                self.leave_to_daemon(now_ns)
            }
            Decision::LeaveToDaemon => {
                self.chronyd.done();
                None
            }
            Decision::Refuse(why) => self.refuse(now_ns, by, why),
        }
    }

    /// Polls the source again, in this sample if it may be.
    fn confirm(&mut self, now_ns: u64, by: Correction) -> Option<Action> {
        let source = &mut self.sources[by.source];
        source.want();
        if source.is_wanted {
            self.stage = Stage::Servers;
            return None;
        }
        source.due_ns = source.due_ns.min(now_ns.saturating_add(SECOND_NS));
        self.refuse(now_ns, by, Refusal::Unconfirmed)
    }

    /// A step that the rate limit was seen to allow.
    fn take_step(&mut self, now_ns: u64, action: Action) -> Option<Action> {
        self.steps.take(now_ns).ok().map(|()| action)
    }

    fn keep_slew(&mut self, now_ns: u64, selected: &Selected, left_ns: i64) -> Option<Action> {
        self.learn_rate(now_ns, selected);
        // A disruption that is classified after its correction has taken back what
        // the kernel was told as this slew began.
        if self.told_ns == 0 {
            let error = self.report_error(now_ns, &with_slew(selected, Some(left_ns)), true);
            self.queued.extend(error);
        }
        self.queued.pop_front()
    }

    /// The other daemon slews so little by itself, once it knows of it. It loses
    /// all that it measured: not as often as a clock is disturbed, and not where
    /// its own slew may be what a source was seen to move by.
    fn leave_to_daemon(&mut self, now_ns: u64) -> Option<Action> {
        let Phase::Disturbed(cause) = self.phase else { return None };
        self.phase = Phase::Corrected(Some(cause));
        let is_news = !matches!(cause, Cause::Start | Cause::SourceMoved(_));
        (is_news && self.steps.take(now_ns).is_ok()).then_some(Action::Restart)
    }

    /// The clock is right.
    fn settle(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        let (offset, by) = (selected.offset, self.correction(selected));
        let was_settled = matches!(self.phase, Phase::Settled);
        let adjustment = self.discipline(now_ns, selected);
        let adjustment = self.settled_alone(adjustment, selected, now_ns);
        let left_ns = self.slewing.map_or(0, |slewing| slewing.left_ns(now_ns));
        let at_end = OffsetBound { offset_ns: offset.offset_ns.saturating_sub(left_ns), ..offset };
        let goes_on = left_ns == 0 || at_end.is_within(self.policy.tolerance_ns);
        let slew_ns = adjustment.and_then(|it| it.slew_ns).or(goes_on.then_some(left_ns));
        let told = with_slew(selected, slew_ns);
        self.note(&told);
        let error = self.report_error(now_ns, &told, !was_settled);
        self.queued.extend(error);
        (self.phase, self.refused) = (Phase::Settled, None);
        self.explained = Explained::since(self.known);
        self.date = Date::Shown;
        self.unlearn_set_rtc(selected);
        self.chronyd.done();
        if !goes_on {
            // A slew that would put it wrong again ends here.
            self.queued.push_front(Action::Slew(Correction { by_ns: 0, ..by }));
        }
        if !was_settled {
            self.queued.push_back(Action::Synchronised(by));
        }
        self.queued.extend(adjustment.map(Action::Discipline));
        let leap = self.arm_leap(now_ns);
        self.queued.extend(leap);
        self.queued.pop_front()
    }

    /// An RTC that shows an absence of which enough others know nothing was set.
    fn unlearn_set_rtc(&mut self, selected: &Selected) {
        let is_shown = selected.kind != SourceKind::Rtc
            && selected.agreeing.0.min(selected.fresh) >= self.needed().0;
        for source in self.sources.iter_mut().filter(|_| is_shown) {
            if source.offset.is_some_and(|rtc| !selected.offset.agrees_with(&rtc)) {
                source.unlearn();
            }
        }
    }

    /// Whether chronyd is fed this offset: it may select what it is fed.
    pub(super) fn is_to_be_fed(&self, selected: &Selected, now_ns: u64) -> bool {
        matches!(self.policy.corrector, Corrector::Chronyd { feed: true, .. })
            && selected.kind != SourceKind::Rtc
            && selected.offset.bound_ns <= self.policy.step_threshold_ns
            && (selected.offset.is_within(self.policy.tolerance_ns)
                || self.reason(selected, now_ns).is_ok())
            && self.is_confirmed(selected)
    }

    /// The next command of chronyd's round, if one is due.
    pub(super) fn continue_round(&self, now_ns: u64) -> Option<Action> {
        let by = self.chronyd.continues(now_ns)?;
        Some(Action::Makestep { by, restart: false })
    }

    pub(super) fn correction(&self, selected: &Selected) -> Correction {
        let offset = selected.offset;
        // An RTC's seconds show that the machine was away. For how long, it may know better.
        let is_known = selected.kind == SourceKind::Rtc
            && self.is_accounted_for(&offset, offset.at_monotonic_ns);
        let by_ns = offset.offset_ns;
        Correction {
            by_ns: if is_known { self.explained.nearest_ns(by_ns) } else { by_ns },
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
        // The clock is off by what enough sources show; a liar alone takes nothing back.
        let is_shown = by.agreeing.0 >= self.needed().0;
        if is_shown && !matches!(why, Refusal::Unconfirmed | Refusal::Contradiction) {
            self.forget_error();
        }
        if is_reported {
            return None;
        }
        self.refused = Some((why, now_ns));
        Some(Action::Refuse(by, why))
    }
}

/// With a bound that holds before, during and after a slew to where several
/// measurements have the clock, which may be beyond this one's middle.
fn with_slew(selected: &Selected, slew_ns: Option<i64>) -> Selected {
    let mut told = *selected;
    let by_ns = told.offset.offset_ns;
    let left_ns = by_ns.saturating_sub(slew_ns.unwrap_or(0)).unsigned_abs();
    let beyond_ns = left_ns.saturating_sub(by_ns.unsigned_abs());
    told.offset.bound_ns = told.offset.bound_ns.saturating_add(beyond_ns);
    told
}
