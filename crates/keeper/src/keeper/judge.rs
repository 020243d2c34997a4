//! What to do about the selected offset: nothing, a step, a slew, or a refusal.

use units::OffsetBound;

use super::date::Date;
use super::disciplined::UNKNOWN_PPB;
use super::explained::Explained;
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

/// No snapshot is older than a year; a source that is off by decades is broken.
const LONGEST_AWAY_NS: u64 = 366 * 86_400 * SECOND_NS;

impl Keeper {
    pub(super) fn judge(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        let correction = self.correction(selected);
        let offset = selected.offset;
        if offset.is_within(self.policy.tolerance_ns) {
            // Too few show neither that it is wrong nor that it is right; and
            // the RTC shows no time at all.
            let is_shown =
                selected.kind != SourceKind::Rtc && selected.agreeing.0 >= self.needed().0;
            return is_shown.then(|| self.settle(now_ns, selected))?;
        }
        // chronyd steps by its own sources, whatever shows that a step is due; but somebody's
        // date is left to it.
        let is_own = !matches!(self.policy.corrector, Corrector::Chronyd { .. });
        if let Err(why) = self.reason(selected, now_ns)
            && (is_own || matches!(why, Refusal::BeyondMaxStep { .. } | Refusal::SetByAnother))
        {
            // Replies of a minute ago may agree with what is true no more.
            if matches!(why, Refusal::TooFewAgree { .. }) && self.poll_stale() {
                self.stage = Stage::Servers;
                return None;
            }
            return self.refuse(now_ns, correction, why);
        }
        // A clock that chronyd is moving is not measured twice at one place.
        if !self.is_confirmed(selected) && !self.chronyd.is_stepping(now_ns) {
            let source = &mut self.sources[selected.source];
            source.want();
            if source.is_wanted {
                self.stage = Stage::Servers;
                return None;
            }
            source.due_ns = source.due_ns.min(now_ns.saturating_add(SECOND_NS));
            return self.refuse(now_ns, correction, Refusal::Unconfirmed);
        }
        self.correct(now_ns, selected, correction)
    }

    /// Whether there is reason enough to move the clock by this offset: the
    /// table of docs/design/keep.md, from top to bottom.
    pub(super) fn reason(&self, selected: &Selected, now_ns: u64) -> Result<(), Refusal> {
        let (offset, agreeing) = (&selected.offset, selected.agreeing.0);
        let size_ns = offset.offset_ns.unsigned_abs();
        if matches!(self.phase, Phase::SetByAnother) {
            return Err(Refusal::SetByAnother);
        }
        let is_alone = agreeing < 2;
        let is_server = selected.kind == SourceKind::Ntp;
        // A machine without an RTC starts in 1970, and what the host said then is no date
        // that others have to keep to.
        let is_start = self.phase.cause() == Some(Cause::Start) || self.date != Date::Shown;
        let is_cold_start = is_start
            && !(is_alone && is_server)
            && (offset.offset_ns > 0 || self.date == Date::Told && !is_alone);
        if size_ns > LONGEST_AWAY_NS && !is_cold_start {
            return Err(Refusal::BeyondMaxStep { max_step_ns: LONGEST_AWAY_NS });
        }
        let is_hosts = selected.kind != SourceKind::Rtc && selected.kind.is_hosts();
        if self.is_accounted_for(offset, now_ns) {
            // What the server's own bound allows beyond that is its word alone.
            return match self.explained.beyond_ns(offset.offset_ns) {
                beyond_ns if is_alone && is_server && beyond_ns > 0 => {
                    self.allows_alone(beyond_ns, now_ns)
                }
                _ => Ok(()),
            };
        }
        if is_hosts && self.date.takes(offset.offset_ns) {
            return Ok(());
        }
        let (needed, configured) = self.needed();
        if agreeing.min(selected.fresh) < needed {
            return Err(Refusal::TooFewAgree { needed, configured });
        }
        if !is_alone {
            return Ok(());
        }
        if is_server {
            self.allows_alone(size_ns, now_ns)?;
        }
        let was_disrupted = match self.phase.cause() {
            Some(Cause::HostResumed | Cause::Disruption(_)) => true,
            // Clocks that go on while the machine stands still.
            Some(Cause::SourceMoved(kind)) => kind.is_local(),
            _ => false,
        };
        if size_ns > self.policy.max_step_ns && !was_disrupted && !is_cold_start {
            let max_step_ns = self.policy.max_step_ns;
            return Err(Refusal::BeyondMaxStep { max_step_ns });
        }
        Ok(())
    }

    /// Whether the disruptions since the clock was right account for it.
    pub(super) fn is_accounted_for(&self, offset: &OffsetBound, now_ns: u64) -> bool {
        let left_ns = self.policy.tolerance_ns.saturating_add(offset.bound_ns.saturating_mul(2));
        let ran_ns = self.ran_off_ns(now_ns);
        ran_ns.is_some_and(|ran_ns| self.explained.accounts_for(offset, left_ns, ran_ns, now_ns))
    }

    /// By how much the clock may have run off since it was known to be right, ns; `None`
    /// where it never was. What a disruption left is not what is wrong with a clock that
    /// was off before, and who lies may say that it is. A voice that needs no other is
    /// believed what it shows anyway, as far as it may.
    fn ran_off_ns(&self, now_ns: u64) -> Option<u64> {
        if self.needed().0 == 1 {
            return Some(0);
        }
        let learnt_ppb = self.frequency().map(|learnt| learnt.uncertainty_ppb);
        let age_ns = self.explained.age_ns(now_ns)? as f64;
        Some((age_ns * learnt_ppb.unwrap_or(UNKNOWN_PPB) * 1e-9) as u64)
    }

    /// Polls again what was not measured in this sample; whether there is any.
    fn poll_stale(&mut self) -> bool {
        let stale = self.sources.iter_mut().filter(|source| !source.is_fresh);
        stale.fold(false, |any, source| {
            source.want();
            any || source.is_wanted
        })
    }

    /// How many independent sources have to agree so that one of them at least
    /// is right, if fewer than half of all that are configured are wrong; and
    /// how many are configured.
    pub(super) fn needed(&self) -> (usize, usize) {
        let configured = self.voices(|_| true);
        (configured.saturating_sub(1) / 2 + 1, configured)
    }

    /// Corrects an offset that is real and too large.
    fn correct(&mut self, now_ns: u64, selected: &Selected, by: Correction) -> Option<Action> {
        let is_back = by.by_ns < 0 && self.policy.never_backward;
        let is_step = by.by_ns.unsigned_abs() > self.policy.step_threshold_ns;
        if !is_step {
            self.note(selected);
        }
        match self.policy.corrector {
            Corrector::Kernel | Corrector::Beside if is_step && !is_back => {
                self.step(now_ns, by, Action::Step)
            }
            Corrector::Kernel => self.slew(now_ns, selected, by),
            Corrector::Beside if is_step => self.refuse(now_ns, by, Refusal::LeftToChronyd),
            Corrector::Beside => self.leave_to_daemon(now_ns),
            // chronyd slews by itself.
            Corrector::Chronyd { .. } if !is_step => {
                self.chronyd.done();
                None
            }
            Corrector::Chronyd { makestep: true, .. } if !is_back => self.makestep(now_ns, by),
            Corrector::Chronyd { .. } => self.refuse(now_ns, by, Refusal::LeftToChronyd),
        }
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

    /// Whether two samples show it, or one of a source that needs one.
    fn is_confirmed(&self, selected: &Selected) -> bool {
        selected.kind.needs_no_second()
            || selected.fresh >= 2
            || self.sources[selected.source].in_a_row >= 2
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

    fn slew(&mut self, now_ns: u64, selected: &Selected, by: Correction) -> Option<Action> {
        let offset = selected.offset;
        let size_ns = by.by_ns.unsigned_abs();
        if size_ns > SLEWED_A_DAY_NS {
            let takes_s = size_ns / (SLEW_PPM * 1000);
            return self.refuse(now_ns, by, Refusal::TooFarAhead { takes_s });
        }
        self.learn_rate(now_ns, selected);
        if let Some(slewing) = self.slewing {
            let left_ns = slewing.left_ns(now_ns);
            let beyond = offset.offset_ns.saturating_sub(left_ns);
            let at_end = OffsetBound { offset_ns: beyond, ..offset };
            let since_ns = now_ns.saturating_sub(slewing.since_ns);
            // Another in its place would be no faster, and end what servers teach.
            let (left, wanted) = (left_ns.unsigned_abs(), size_ns);
            let is_under_way = left_ns.signum() == by.by_ns.signum()
                && left <= wanted
                && (selected.kind.is_server() || left >= wanted / 2);
            // What a pause during a slew turned round: going on makes it worse.
            // Of a source that goes to and fro the interval holds.
            let is_away =
                left_ns.signum() == -by.by_ns.signum() && self.disrupted_ns >= slewing.since_ns;
            if since_ns < self.policy.min_interval_ns && !is_away
                || is_under_way
                || left_ns != 0 && at_end.is_within(self.policy.tolerance_ns)
            {
                // A disruption that is classified after its correction has taken back what
                // the kernel was told as this slew began.
                let is_forgotten = self.told_ns == 0;
                let told = with_slew(selected, Some(left_ns));
                let error = is_forgotten.then(|| self.report_error(now_ns, &told, true));
                self.queued.extend(error.flatten());
                return self.queued.pop_front();
            }
        }
        let error = self.report_error(now_ns, selected, true);
        self.queued.extend(error);
        // The kernel slews by microseconds.
        let by_ns = by.by_ns.clamp(-MOST_AT_ONCE_NS, MOST_AT_ONCE_NS) / 1000 * 1000;
        Some(Action::Slew(Correction { by_ns, ..by }))
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
