//! What to do about the selected offset: nothing, a step, a slew, or a refusal. Nothing here
//! changes the keeper except `note_line`, `leave_line` and `lose_line`: `judge` carries a decision out, and `view`
//! shows it.
//!
//! | the offset | decision |
//! | --- | --- |
//! | none counts | wait |
//! | within the tolerance | settle where enough sources show it, else leave |
//! | no reason to move the clock by it | refuse; poll stale sources first where too few agree |
//! | shown by one reply of a server | confirm |
//! | beyond the step threshold | step or makestep, within the rate limit |
//! | up to it | slew, or leave to the other daemon |

use pvclock::units::OffsetBound;

use super::date::DateGuard;
use super::polled::SECOND_NS;
use super::{Keeper, KeeperPhase, KeeperView, KeptBound};
use crate::action::{Correction, CorrectionCause, Refusal};
use crate::choice::{Choice, Selected};
use crate::frequency::LearntFrequency;
use crate::offset::Offset;
use crate::policy::{Corrector, Policy};
use crate::slewing::{MOST_AT_ONCE_NS, SLEW_PPM};
use crate::source::SourceKind;

/// What a day of slewing corrects, 43.2 s: a clock that is further ahead is not
/// slewed.
const SLEWED_A_DAY_NS: u64 = 86_400 * SLEW_PPM * 1000;

/// No snapshot is older than a year; a source that is off by decades is broken.
const LONGEST_AWAY_NS: u64 = 366 * 86_400 * SECOND_NS;

/// Whether chronyd is not sent a command either.
fn is_final(why: Refusal) -> bool {
    matches!(
        why,
        Refusal::BeyondMaxStep { .. }
            | Refusal::BeyondLongestAbsence { .. }
            | Refusal::SetByAnother
    )
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// There is no offset that counts.
    Wait,
    /// The clock is right.
    Settle,
    /// The clock is right, as far as too few sources show.
    Leave,
    /// Too few agree: those that were not measured in this sample are polled first.
    PollStale(Refusal),
    /// One reply shows it: its source is polled again.
    Confirm,
    /// A step.
    Step,
    /// A slew by this, ns.
    Slew(i64),
    /// The slew in progress stays, of which this is left, ns.
    KeepSlew(i64),
    /// chronyd is sent `makestep`, and measures again before where a round begins.
    Makestep { restart: bool },
    /// chronyd was sent `makestep`, and has some time.
    AwaitChronyd,
    /// The other daemon slews it.
    LeaveToDaemon,
    /// Nothing, and why.
    Refuse(Refusal),
}

impl Keeper {
    /// What to do at `now_ns` about what was chosen.
    pub(super) fn decide(&self, now_ns: u64, choice: &Choice) -> Decision {
        match choice {
            Choice::Nothing => Decision::Wait,
            Choice::Contradiction(_) => Decision::Refuse(Refusal::Contradiction),
            Choice::Of(selected) => self.decide_selected(now_ns, selected),
        }
    }

    /// The same of the selected source.
    pub(super) fn decide_selected(&self, now_ns: u64, selected: &Selected) -> Decision {
        if selected.offset.is_within(self.policy.tolerance_ns) {
            // Too few show neither that it is wrong nor that it is right; and
            // the RTC shows no time at all.
            let is_shown =
                selected.kind != SourceKind::Rtc && selected.agreeing.0 >= self.sources.needed().0;
            return if is_shown { Decision::Settle } else { Decision::Leave };
        }
        // chronyd steps by its own sources, whatever shows that a step is due; but somebody's
        // date is left to it.
        let is_own = !matches!(self.policy.corrector, Corrector::Chronyd { .. });
        if let Err(why) = self.reason(selected, now_ns)
            && (is_own || is_final(why))
        {
            // Replies of a minute ago may agree with what is true no more.
            let is_stale =
                matches!(why, Refusal::TooFewAgree { .. }) && self.sources.is_any_stale();
            return if is_stale { Decision::PollStale(why) } else { Decision::Refuse(why) };
        }
        // A clock that chronyd is moving is not measured twice at one place.
        if !self.sources.is_confirmed(selected) && !self.chronyd.is_stepping(now_ns) {
            return Decision::Confirm;
        }
        self.decide_correction(now_ns, selected)
    }

    /// How to correct an offset that is real and too large.
    fn decide_correction(&self, now_ns: u64, selected: &Selected) -> Decision {
        let by_ns = self.correction(selected).by_ns;
        let is_back = by_ns < 0 && self.policy.never_backward;
        let is_step = self.is_step(by_ns);
        match self.policy.corrector {
            Corrector::Kernel | Corrector::Beside if is_step && !is_back => {
                self.within_limit(now_ns, Decision::Step)
            }
            Corrector::Kernel => self.decide_slew(now_ns, selected, by_ns),
            Corrector::Beside | Corrector::Chronyd { .. } if !is_step => Decision::LeaveToDaemon,
            Corrector::Chronyd { makestep: true, .. } if !is_back => self.decide_makestep(now_ns),
            Corrector::Beside | Corrector::Chronyd { .. } => {
                Decision::Refuse(Refusal::LeftToChronyd)
            }
        }
    }

    /// Whether an offset is too large to be slewed.
    pub(super) fn is_step(&self, by_ns: i64) -> bool {
        by_ns.unsigned_abs() > self.policy.step_threshold_ns
    }

    /// That, if the rate limit allows another step now.
    fn within_limit(&self, now_ns: u64, decision: Decision) -> Decision {
        match self.actions.steps.wait_ns(now_ns) {
            None => decision,
            Some(wait_ns) => Decision::Refuse(Refusal::RateLimited { wait_ns }),
        }
    }

    /// A round of commands takes one of the steps allowed.
    fn decide_makestep(&self, now_ns: u64) -> Decision {
        if now_ns < self.chronyd.next_command_ns(now_ns) {
            Decision::AwaitChronyd
        } else if self.chronyd.is_stepping(now_ns) {
            Decision::Makestep { restart: false }
        } else {
            self.within_limit(now_ns, Decision::Makestep { restart: true })
        }
    }

    fn decide_slew(&self, now_ns: u64, selected: &Selected, by_ns: i64) -> Decision {
        let size_ns = by_ns.unsigned_abs();
        if size_ns > SLEWED_A_DAY_NS {
            let takes_s = size_ns / (SLEW_PPM * 1000);
            return Decision::Refuse(Refusal::TooFarAhead { takes_s });
        }
        // The kernel slews by microseconds.
        let whole_ns = by_ns.clamp(-MOST_AT_ONCE_NS, MOST_AT_ONCE_NS) / 1000 * 1000;
        self.kept_slew(now_ns, selected, by_ns).map_or(Decision::Slew(whole_ns), Decision::KeepSlew)
    }

    /// What is left of the slew in progress, ns, where another is not to replace it.
    fn kept_slew(&self, now_ns: u64, selected: &Selected, by_ns: i64) -> Option<i64> {
        let slewing = self.clock.slewing?;
        let left_ns = slewing.left_ns(now_ns);
        let offset = selected.offset;
        let at_end = OffsetBound { offset_ns: offset.offset_ns.saturating_sub(left_ns), ..offset };
        let since_ns = now_ns.saturating_sub(slewing.since_ns);
        // Another in its place would be no faster, and end what servers teach.
        let (left, wanted) = (left_ns.unsigned_abs(), by_ns.unsigned_abs());
        let is_under_way = left_ns.signum() == by_ns.signum()
            && left <= wanted
            && (selected.kind.is_server() || left >= wanted / 2);
        // What a pause during a slew turned round: going on makes it worse.
        // Of a source that goes to and fro the interval holds.
        let is_away =
            left_ns.signum() == -by_ns.signum() && self.clock.disrupted_ns >= slewing.since_ns;
        let stays = since_ns < self.policy.min_interval_ns && !is_away
            || is_under_way
            || left_ns != 0 && at_end.is_within(self.policy.tolerance_ns);
        stays.then_some(left_ns)
    }

    /// Whether there is reason enough to move the clock by this offset: the
    /// table of docs/design/keep.md, from top to bottom.
    pub(super) fn reason(&self, selected: &Selected, now_ns: u64) -> Result<(), Refusal> {
        let (offset, agreeing) = (&selected.offset, selected.agreeing.0);
        let size_ns = offset.offset_ns.unsigned_abs();
        if matches!(self.clock.phase, KeeperPhase::SetByAnother) {
            return Err(Refusal::SetByAnother);
        }
        let is_alone = agreeing < 2;
        let is_server = selected.kind == SourceKind::Ntp;
        // A machine without an RTC starts in 1970, and what the host said then is no date
        // that others have to keep to.
        let is_start = self.clock.phase.cause() == Some(CorrectionCause::Start)
            || self.clock.date != DateGuard::Shown;
        let is_cold_start = is_start
            && !(is_alone && is_server)
            && (offset.offset_ns > 0 || self.clock.date == DateGuard::Told && !is_alone);
        if size_ns > LONGEST_AWAY_NS && !is_cold_start {
            return Err(Refusal::BeyondLongestAbsence { most_ns: LONGEST_AWAY_NS });
        }
        let is_hosts = selected.kind != SourceKind::Rtc && selected.kind.is_hosts();
        if self.is_accounted_for(offset, now_ns) {
            // What the server's own bound allows beyond that is its word alone.
            return match self.clock.disruption_budget.beyond_ns(offset.offset_ns) {
                beyond_ns if is_alone && is_server && beyond_ns > 0 => {
                    self.clock.check_lone_move(beyond_ns, now_ns)
                }
                _ => Ok(()),
            };
        }
        if is_hosts && self.clock.date.takes(offset.offset_ns) {
            return Ok(());
        }
        let (needed, configured) = self.sources.needed();
        if agreeing.min(selected.fresh) < needed {
            return Err(Refusal::TooFewAgree { needed, configured });
        }
        if !is_alone {
            return Ok(());
        }
        if is_server {
            self.clock.check_lone_move(size_ns, now_ns)?;
        }
        let was_disrupted = match self.clock.phase.cause() {
            Some(
                CorrectionCause::HostResumed
                | CorrectionCause::GateWaits
                | CorrectionCause::Disruption(_),
            ) => true,
            // Clocks that go on while the machine stands still.
            Some(CorrectionCause::SourceMoved(kind)) => kind.is_local(),
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
        let learnt_ppb = self.frequency().map(|learnt| learnt.uncertainty_ppb);
        let is_believed = self.sources.needed().0 == 1;
        self.clock.is_accounted_for(offset, &self.policy, learnt_ppb, is_believed, now_ns)
    }

    /// The selected source's offset as a correction.
    pub(super) fn correction(&self, selected: &Selected) -> Correction {
        let offset = selected.offset;
        // An RTC's seconds show that the machine was away. For how long, it may know better.
        let is_known = selected.kind == SourceKind::Rtc
            && self.is_accounted_for(&offset, offset.at_monotonic_ns);
        let nearest_ns = || self.clock.disruption_budget.nearest_ns(offset.offset_ns);
        Correction {
            by_ns: if is_known { nearest_ns() } else { offset.offset_ns },
            bound_ns: offset.bound_ns,
            source: selected.source,
            agreeing: selected.agreeing,
            showing_time: selected.showing_time,
            cause: self.clock.phase.cause(),
        }
    }

    /// Whether chronyd is fed this offset: it may select what it is fed.
    pub(super) fn is_to_be_fed(&self, selected: &Selected, now_ns: u64) -> bool {
        matches!(self.policy.corrector, Corrector::Chronyd { feed: true, .. })
            && selected.kind != SourceKind::Rtc
            && selected.offset.bound_ns <= self.policy.step_threshold_ns
            && (selected.offset.is_within(self.policy.tolerance_ns)
                || self.reason(selected, now_ns).is_ok())
            && self.sources.is_confirmed(selected)
    }

    /// The page whose line the frequency may follow in this sample, its index: the clock is right
    /// by a majority that the page is the best of, nothing is being slewed, and no disruption may
    /// be in what was measured.
    pub fn followed_line(&self, now_ns: u64) -> Option<usize> {
        let is_calm = matches!(self.clock.phase, KeeperPhase::Settled) && !self.is_gathering;
        if !is_calm || !self.is_kernels() || self.clock.discipline.may_slew(now_ns) {
            return None;
        }
        let Choice::Of(selected) = self.sources.choose(now_ns, &self.policy) else { return None };
        let is_right = matches!(self.decide_selected(now_ns, &selected), Decision::Settle);
        (selected.kind == SourceKind::VmClock && is_right).then_some(selected.source)
    }

    /// The kernel steers the clock faster than a bound grows, or did until now: nothing that was
    /// measured bounds its error. Who steers it so sets it right, which is no disruption.
    pub fn forget_bound(&mut self, now_ns: u64) {
        self.forget_error();
        self.clock.error_bound = None;
        self.clock.discipline.forget_offsets();
        self.clock.discipline.forget_rate();
        self.sources.forget_all_but(None, now_ns);
        self.stage = super::Stage::Local;
    }

    /// The frequency follows that line, ppb.
    pub fn note_line(&mut self, now_ns: u64, frequency_ppb: f64) {
        self.clock.discipline.follow_line(now_ns, frequency_ppb);
    }

    /// No line is followed: the frequency may be adjusted by offsets at once.
    pub fn leave_line(&mut self, now_ns: u64) {
        self.clock.discipline.leave_line(now_ns);
    }

    /// Whether a line may set this frequency, ppb: what was measured of the clock allows it, or
    /// nothing was, and the page's word needs no other.
    pub fn allows_line(&self, frequency_ppb: f64) -> bool {
        let is_believed = self.sources.needed().0 == 1;
        self.clock.discipline.proves(frequency_ppb).unwrap_or(is_believed)
    }

    /// Another process may steer the clock: the frequency could not be set, or it was changed.
    pub fn lose_line(&mut self) {
        self.clock.discipline.reset();
    }

    /// Whether this process corrects the clock, by the kernel.
    pub(super) fn is_kernels(&self) -> bool {
        self.policy.corrector == Corrector::Kernel
    }

    /// Its settings, and what corrects the clock now.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The frequency that is set, and how well it is known; `None` while it is
    /// not. To be stored for the next start.
    pub fn frequency(&self) -> Option<LearntFrequency> {
        self.clock.discipline.frequency().filter(|_| self.is_kernels())
    }

    /// When the next server is to be polled, CLOCK_MONOTONIC; `None` without any.
    pub fn next_poll_ns(&self) -> Option<u64> {
        self.sources.next_poll_ns()
    }

    /// Checks what enough sources show against the bound that was known, unless evidence that is
    /// not classified yet may account for it. In doubt the kernel is told no error either, and
    /// the servers are asked again as soon as an answer can end the doubt.
    pub(super) fn check_against_bound(&mut self, selected: &Selected) {
        if self.is_gathering || selected.showing_time < self.sources.needed().0 {
            return;
        }
        self.clock.check_against_bound(&selected.offset, &self.policy);
        if let Some(until_ns) = self.clock.doubted_until_ns(&selected.offset) {
            self.forget_error();
            if selected.kind.is_server() {
                // Their next poll may be a minute later, and the clock has no bound until then.
                self.sources.poll_by(until_ns);
            }
        }
    }

    /// The workload waits for the clock to be right within this: the servers are asked each second,
    /// as far as the limit of requests allows, while it may be off by more or is not known to be.
    pub fn want_bound(&mut self, bound_ns: u64, now_ns: u64) {
        if self.may_be_off_by(bound_ns, now_ns) {
            self.sources.poll_by(now_ns.saturating_add(SECOND_NS));
        }
    }

    /// The same for anybody who asks: what a disruption may need of that limit stays.
    pub fn ask_for_bound(&mut self, bound_ns: u64, now_ns: u64) {
        if self.may_be_off_by(bound_ns, now_ns) {
            self.sources.poll_for_asker(now_ns.saturating_add(SECOND_NS), now_ns);
        }
    }

    fn may_be_off_by(&self, bound_ns: u64, now_ns: u64) -> bool {
        self.error_bound(now_ns).error_ns(now_ns).is_none_or(|error_ns| error_ns > bound_ns)
    }

    /// How far the clock may be off at `now_ns`, CLOCK_MONOTONIC.
    pub fn error_bound(&self, now_ns: u64) -> KeptBound {
        self.clock.error_bound(now_ns, &self.policy, self.away_until_ns)
    }

    /// What is known at `now_ns`, CLOCK_MONOTONIC, and what would be done.
    pub fn view(&self, now_ns: u64) -> KeeperView {
        KeeperView::new(self, now_ns)
    }
}
