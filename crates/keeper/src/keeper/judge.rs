//! What to do about what was chosen: nothing, a step, a slew, or a refusal.

use super::Keeper;
use super::asked::SECOND_NS;
use crate::action::{Action, Cause, Correction, Refusal};
use crate::choice::Chosen;
use crate::policy::Hand;
use crate::slewing::{MOST_AT_ONCE_NS, SLEW_PPM};
use crate::source::{Reading, SourceKind};

/// The same refusal is not told again for so long.
const SAID_FOR_NS: u64 = 60 * SECOND_NS;

/// What a day of slewing does, 43.2 s: a clock that is ahead by more is not
/// put right that way.
const SLEWED_A_DAY_NS: u64 = 86_400 * SLEW_PPM * 1000;

impl Keeper {
    pub(super) fn judge(&mut self, now_ns: u64, chosen: &Chosen) -> Option<Action> {
        let correction = self.correction(chosen);
        let reading = chosen.reading;
        let is_worse = chosen.kind == SourceKind::Rtc && self.is_led;
        if reading.is_within(self.policy.tolerance_ns) {
            // That a better one's correction was right, a second cannot tell.
            return match is_worse {
                true => self.go_on(now_ns),
                false => self.settle(now_ns, &reading, correction),
            };
        }
        if self.is_beyond(chosen) {
            let max_step_ns = self.policy.max_step_ns;
            return self.refuse(now_ns, correction, Refusal::BeyondMaxStep { max_step_ns });
        }
        let is_at_it = self.chronyd.is_at_it(now_ns);
        if is_worse && !is_at_it {
            if now_ns < self.chronyd.next_round_ns() {
                // The better one is not silent: it is asked then.
                return None;
            }
            return self.refuse(now_ns, correction, Refusal::WorseSource);
        }
        // A clock that chronyd is moving is not found twice at the same place.
        if !self.is_confirmed(chosen) && !is_at_it {
            let source = &mut self.sources[chosen.source];
            source.want();
            if source.is_wanted {
                self.is_decided = false;
                return None;
            }
            source.due_ns = source.due_ns.min(now_ns.saturating_add(SECOND_NS));
            return self.refuse(now_ns, correction, Refusal::Unconfirmed);
        }
        let is_back = correction.by_ns < 0 && self.policy.never_backward;
        let is_step = correction.by_ns.unsigned_abs() > self.policy.step_threshold_ns;
        match self.policy.hand {
            Hand::Own if is_step && !is_back => self.step(now_ns, correction, Action::Step),
            Hand::Own => self.slew(now_ns, &reading, correction),
            // What it slews is its own affair.
            Hand::Chronyd { .. } if !is_step => {
                self.chronyd.done();
                None
            }
            Hand::Chronyd { step: true, .. } if !is_back => self.ask_chronyd(now_ns, correction),
            Hand::Chronyd { .. } => self.refuse(now_ns, correction, Refusal::LeftToChronyd),
        }
    }

    /// The clock is right.
    fn settle(&mut self, now_ns: u64, reading: &Reading, by: Correction) -> Option<Action> {
        (self.cause, self.said) = (None, None);
        self.chronyd.done();
        self.note_led(by.source);
        let settled =
            (!std::mem::replace(&mut self.is_settled, true)).then_some(Action::Settled(by));
        let Some(left_ns) = self.slewing.map(|slewing| slewing.left_ns(now_ns)) else {
            return settled;
        };
        let at_end = Reading { offset_ns: reading.offset_ns.saturating_sub(left_ns), ..*reading };
        if left_ns == 0 || at_end.is_within(self.policy.tolerance_ns) {
            return settled;
        }
        // A slew that would put it wrong again ends here.
        self.next = settled;
        Some(Action::Slew(Correction { by_ns: 0, ..by }))
    }

    /// Whether it is more than is believed. A machine without a clock on its
    /// board starts in 1970, which its host, or two that agree, may put right.
    pub(super) fn is_beyond(&self, chosen: &Chosen) -> bool {
        let by_ns = chosen.reading.offset_ns;
        let is_sure = chosen.kind.needs_no_second() || chosen.agreeing.0 >= 2;
        let is_start = self.cause == Some(Cause::Start) && by_ns > 0 && is_sure;
        by_ns.unsigned_abs() > self.policy.max_step_ns && !is_start
    }

    /// Whether it was said twice, or by somebody who has to say it once.
    fn is_confirmed(&self, chosen: &Chosen) -> bool {
        chosen.kind.needs_no_second()
            || chosen.fresh >= 2
            || self.sources[chosen.source].in_a_row >= 2
    }

    /// Whether chronyd is better off with it: what it was fed it may go by.
    pub(super) fn is_to_be_fed(&self, chosen: &Chosen) -> bool {
        matches!(self.policy.hand, Hand::Chronyd { feed: true, .. })
            && chosen.kind != SourceKind::Rtc
            && chosen.reading.bound_ns <= self.policy.step_threshold_ns
            && !self.is_beyond(chosen)
            && self.is_confirmed(chosen)
    }

    /// The board's clock drifts as this one does: it tells what a disruption
    /// did, and is not to undo what a better one said before falling silent.
    pub(super) fn note_led(&mut self, source: usize) {
        self.is_led |= self.sources[source].kind != SourceKind::Rtc;
    }

    fn step(
        &mut self,
        now_ns: u64,
        by: Correction,
        how: impl FnOnce(Correction) -> Action,
    ) -> Option<Action> {
        match self.steps.take(now_ns) {
            Ok(()) => Some(how(by)),
            Err(wait_ns) => self.refuse(now_ns, by, Refusal::TooOften { wait_ns }),
        }
    }

    /// Has chronyd step, unless it was just asked. Servers are asked again
    /// after the round, and not at their next poll. A round takes one of the
    /// steps allowed.
    fn ask_chronyd(&mut self, now_ns: u64, by: Correction) -> Option<Action> {
        let again_ns = self.chronyd.again_ns(now_ns);
        if now_ns < again_ns {
            let due_ns = self.chronyd.next_round_ns();
            for source in &mut self.sources {
                source.due_ns = source.due_ns.min(due_ns);
            }
            return None;
        }
        if self.chronyd.is_at_it(now_ns) {
            return Some(Action::AskChronyd { by, anew: false });
        }
        self.step(now_ns, by, |by| Action::AskChronyd { by, anew: true })
    }

    /// The next request of chronyd's round, if one is due.
    pub(super) fn go_on(&self, now_ns: u64) -> Option<Action> {
        let by = self.chronyd.goes_on(now_ns)?;
        Some(Action::AskChronyd { by, anew: false })
    }

    fn slew(&mut self, now_ns: u64, reading: &Reading, correction: Correction) -> Option<Action> {
        let size_ns = correction.by_ns.unsigned_abs();
        if size_ns > SLEWED_A_DAY_NS {
            let takes_s = size_ns / (SLEW_PPM * 1000);
            return self.refuse(now_ns, correction, Refusal::TooFarAhead { takes_s });
        }
        if let Some(slewing) = self.slewing {
            let left_ns = slewing.left_ns(now_ns);
            let beyond = reading.offset_ns.saturating_sub(left_ns);
            let is_enough = Reading { offset_ns: beyond, ..*reading };
            let since_ns = now_ns.saturating_sub(slewing.since_ns);
            if since_ns < self.policy.min_interval_ns
                || slewing.is_long(correction.by_ns, now_ns)
                || left_ns != 0 && is_enough.is_within(self.policy.tolerance_ns)
            {
                return None;
            }
        }
        let by_ns = correction.by_ns.clamp(-MOST_AT_ONCE_NS, MOST_AT_ONCE_NS);
        Some(Action::Slew(Correction { by_ns, ..correction }))
    }

    pub(super) fn correction(&self, chosen: &Chosen) -> Correction {
        Correction {
            by_ns: chosen.reading.offset_ns,
            bound_ns: chosen.reading.bound_ns,
            source: chosen.source,
            agreeing: chosen.agreeing,
            cause: self.cause,
        }
    }

    pub(super) fn refuse(&mut self, now_ns: u64, by: Correction, why: Refusal) -> Option<Action> {
        let is_said = self.said.as_ref().is_some_and(|(said, at_ns)| {
            let is_recent = now_ns.saturating_sub(*at_ns) < SAID_FOR_NS;
            said.is_like(&why) && (is_recent || why.is_lasting())
        });
        if is_said {
            return None;
        }
        self.said = Some((why, now_ns));
        Some(Action::Refuse(by, why))
    }
}
