//! A decision carried out: a step, a slew, a refusal, and the clock between corrections:
//! its frequency, the last microseconds, and what the kernel is given as its error.
//!
//! A server is asked once a minute, and a pause of milliseconds between two
//! replies, which nothing else shows, looks like a frequency: how well one that
//! servers show is known is not claimed, nor is it stored.

use disruptions::{Disruption, Evidence, Kind};
use pvclock::units::OffsetBound;

use super::clock::{UNKNOWN_NS, UNKNOWN_PPB};
use super::date::DateGuard;
use super::decision::Decision;
use super::disruption_budget::DisruptionBudget;
use super::lone_moves::{LoneMoves, is_lone_server};
use super::polled::SECOND_NS;
use super::{Keeper, KeeperPhase, KeptBound, Stage};
use crate::action::{Action, ClockError, Correction, CorrectionCause, Refusal};
use crate::choice::{Choice, Selected};
use crate::discipline::Adjustment;
use crate::frequency::LearntFrequency;
use crate::offset::Offset;
use crate::policy::Corrector;
use crate::source::SourceKind;

/// The same refusal is reported again after this.
const REPORTED_FOR_NS: u64 = 60 * SECOND_NS;

/// How often the clock's error is reported to the kernel, which adds 500 µs a
/// second to it: at most 8 ms.
const REPORT_INTERVAL_NS: u64 = 16 * SECOND_NS;

impl Keeper {
    /// The kernel's frequency at the start, ppb, and what was learnt before; that
    /// counts where a source can show it to be wrong.
    pub fn start_at(&mut self, kernel_ppb: f64, learnt: Option<LearntFrequency>) {
        let disciplines = |kind: SourceKind| kind.is_local() && kind != SourceKind::Rtc;
        let is_any = self.sources.iter().any(|source| disciplines(source.kind));
        self.clock.discipline.reset();
        let adjustment = self.clock.discipline.start(kernel_ppb, learnt.filter(|_| is_any));
        self.adjust(adjustment);
    }

    /// Another daemon that disciplines the clock was started, or the last one
    /// ended: whether that is new.
    pub fn set_corrector(&mut self, corrector: Corrector) -> bool {
        let is_new = self.policy.corrector != corrector;
        if is_new {
            self.policy.corrector = corrector;
            self.leap.adopt(None);
            self.actions.retain(|action| {
                !matches!(
                    action,
                    Action::Discipline(_)
                        | Action::SetFigures { .. }
                        | Action::SetError { .. }
                        | Action::SetLeap(_)
                )
            });
            self.clock.discipline.reset();
        }
        is_new
    }

    /// What corrects the clock by the kernel, which another daemon may do instead.
    pub(super) fn adjust(&mut self, adjustment: Option<Adjustment>) {
        if self.is_kernels() {
            self.actions.add(adjustment.map(Action::Discipline));
        }
    }

    /// Corrects by the host's clock what a disruption accounts for, where
    /// servers are to be polled: one that is unreachable costs a second.
    pub(super) fn conclude_by_host(&mut self, now_ns: u64) -> Option<Action> {
        let is_server_wanted = self.sources.iter().any(|source| source.is_wanted);
        if !is_server_wanted || self.stage != Stage::Local {
            return None;
        }
        self.stage = Stage::Servers;
        let may = |kind: SourceKind| kind.is_local() && kind.needs_no_second();
        if !self.sources.iter().any(|source| may(source.kind)) {
            return None;
        }
        let Choice::Of(selected) = self.sources.choose(now_ns, &self.policy) else { return None };
        let is_off = !selected.offset.is_within(self.policy.tolerance_ns);
        (may(selected.kind) && is_off && self.is_accounted_for(&selected.offset, now_ns))
            .then(|| self.judge(now_ns, &selected))?
    }

    /// Decides by all sources, and carries that out.
    pub(super) fn conclude(&mut self, now_ns: u64) -> Option<Action> {
        match self.sources.choose(now_ns, &self.policy) {
            Choice::Nothing => {
                // The next command of chronyd's round, if one is due.
                let round = self.chronyd.due_command(now_ns);
                round
                    .map(|by| Action::Makestep { by, restart: false })
                    .or_else(|| self.hold_over(now_ns))
            }
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
                self.actions.add(action);
                Some(Action::FeedChronyd(selected.offset))
            }
        }
    }

    /// Decides about the selected offset, and carries that out.
    pub(super) fn judge(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        self.check_against_bound(selected);
        let (decision, by) = (self.decide_selected(now_ns, selected), self.correction(selected));
        let is_slewed = matches!(
            decision,
            Decision::Slew(_)
                | Decision::KeepSlew(_)
                | Decision::LeaveToDaemon
                | Decision::Refuse(Refusal::TooFarAhead { .. })
        );
        if is_slewed && !self.is_step(by.by_ns) {
            // A slew in progress may end elsewhere than this measurement has the clock.
            let slew_ns = match decision {
                Decision::Slew(by_ns) => by_ns,
                _ => self.clock.slew_left_at_most_ns(now_ns),
            };
            self.clock.note(&selected.with_slew(Some(slew_ns)), self.sources.needed().0);
        }
        match decision {
            Decision::Wait | Decision::Leave => None,
            Decision::Settle => self.settle(now_ns, selected),
            Decision::PollStale(_) => {
                self.sources.poll_stale();
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
                self.sources.poll_by(self.chronyd.next_round_ns());
                None
            }
            Decision::Slew(by_ns) => {
                self.learn_rate(now_ns, selected);
                let error = self.report_error(now_ns, selected, true);
                self.actions.add(error);
                Some(Action::Slew(Correction { by_ns, ..by }))
            }
            Decision::KeepSlew(left_ns) => self.keep_slew(now_ns, selected, left_ns),
            Decision::LeaveToDaemon if self.policy.corrector == Corrector::Beside => {
                self.leave_to_daemon(now_ns)
            }
            Decision::LeaveToDaemon => {
                self.chronyd.end_round();
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
        self.actions.steps.take(now_ns).ok().map(|()| action)
    }

    fn keep_slew(&mut self, now_ns: u64, selected: &Selected, left_ns: i64) -> Option<Action> {
        self.learn_rate(now_ns, selected);
        // A disruption that is classified after its correction has taken back what
        // the kernel was given as this slew began.
        if self.clock.error_reported_ns == 0 {
            let error = self.report_error(now_ns, &selected.with_slew(Some(left_ns)), true);
            self.actions.add(error);
        }
        self.actions.take_next()
    }

    /// The other daemon slews so little by itself, once it knows of it. It loses
    /// all that it measured: not as often as a clock is disturbed, and not where
    /// its own slew may be what a source was seen to move by.
    fn leave_to_daemon(&mut self, now_ns: u64) -> Option<Action> {
        let KeeperPhase::Disturbed(cause) = self.clock.phase else { return None };
        self.clock.phase = KeeperPhase::Corrected(Some(cause));
        let is_unknown_to_it =
            !matches!(cause, CorrectionCause::Start | CorrectionCause::SourceMoved(_));
        (is_unknown_to_it && self.actions.steps.take(now_ns).is_ok()).then_some(Action::Restart)
    }

    /// The clock is right.
    fn settle(&mut self, now_ns: u64, selected: &Selected) -> Option<Action> {
        let (offset, by) = (selected.offset, self.correction(selected));
        let was_settled = matches!(self.clock.phase, KeeperPhase::Settled);
        let adjustment = self.discipline(now_ns, selected);
        let adjustment = if is_lone_server(selected.kind, selected.agreeing.0.min(selected.fresh)) {
            self.clock.limit_lone_slew(adjustment, now_ns)
        } else {
            // By any other nothing is held against a server any more.
            self.clock.lone_moves = LoneMoves::default();
            adjustment
        };
        let left_ns = self.clock.slew_left_ns(now_ns);
        let at_end = OffsetBound { offset_ns: offset.offset_ns.saturating_sub(left_ns), ..offset };
        let stays = left_ns == 0 || at_end.is_within(self.policy.tolerance_ns);
        let slew_ns = adjustment
            .and_then(|adjustment| adjustment.slew_ns)
            .or_else(|| stays.then(|| self.clock.slew_left_at_most_ns(now_ns)));
        let reported = selected.with_slew(slew_ns);
        self.clock.note(&reported, self.sources.needed().0);
        let error = self.report_error(now_ns, &reported, !was_settled);
        self.actions.add(error);
        (self.clock.phase, self.refused) = (KeeperPhase::Settled, None);
        self.clock.disruption_budget = DisruptionBudget::since(self.clock.error_bound);
        self.clock.date = DateGuard::Shown;
        self.sources.unlearn_contradicted(selected);
        self.chronyd.end_round();
        if !stays {
            // A slew that would put it wrong again ends here.
            self.actions.add_first(Action::Slew(Correction { by_ns: 0, ..by }));
        }
        if !was_settled {
            self.actions.add([Action::Synchronised(by)]);
        }
        self.actions.add(adjustment.map(Action::Discipline));
        if self.is_kernels()
            && let Some(leap) = self.sources.announced_by_most(now_ns, &self.policy)
        {
            self.actions.add(self.leap.arm(leap, now_ns));
        }
        self.actions.take_next()
    }

    pub(super) fn refuse(&mut self, now_ns: u64, by: Correction, why: Refusal) -> Option<Action> {
        let is_reported = self.refused.as_ref().is_some_and(|(last, at_ns)| {
            let is_recent = now_ns.saturating_sub(*at_ns) < REPORTED_FOR_NS;
            last.is_like(&why) && (is_recent || why.is_lasting())
        });
        // The clock is off by what enough sources show; a liar alone takes nothing back.
        let is_shown = by.agreeing.0 >= self.sources.needed().0;
        if is_shown && !matches!(why, Refusal::Unconfirmed | Refusal::Contradiction) {
            self.forget_error();
        }
        if is_reported {
            return None;
        }
        self.refused = Some((why, now_ns));
        Some(Action::Refuse(by, why))
    }

    /// What a disruption leaves of what was learnt: a paused machine keeps its
    /// oscillator, one that may have been moved perhaps not.
    pub(super) fn disturb_frequency(&mut self, disruption: &Disruption) {
        // An RTC runs away from a slow clock as in an absence. What it shows alone does
        // not hide a rate: that repeats itself to the millisecond.
        if !matches!(disruption.evidence[..], [Evidence::Rtc { .. }]) {
            self.clock.discipline.forget_rate();
        }
        let moves = [Kind::Migrated, Kind::SourceSwitched, Kind::SnapshotRestored];
        if !moves.into_iter().any(|kind| disruption.kinds.contains(kind)) {
            return;
        }
        let only = disruption.kinds.only();
        let is_certain = matches!(only, Some(Kind::Migrated | Kind::SourceSwitched));
        let adjustment = self.clock.discipline.other_oscillator(is_certain);
        self.adjust(adjustment);
    }

    /// The clock is right: what to adjust.
    pub(super) fn discipline(&mut self, now_ns: u64, selected: &Selected) -> Option<Adjustment> {
        self.learn(now_ns, selected)?;
        self.clock.discipline.adjust(now_ns, self.policy.poll_ns)
    }

    /// Notes what is measured; `None` where nothing is to follow from it.
    fn learn(&mut self, now_ns: u64, selected: &Selected) -> Option<()> {
        let is_ours = self.is_kernels() && !selected.kind.is_pushed();
        // What a set that is not classified yet may be in shows no frequency.
        let proven = selected.proven.filter(|_| is_ours && !self.is_gathering)?;
        let offset = selected.offset.interval_at(now_ns);
        let likely_ns = selected.kind.is_server().then_some(selected.likely_ns);
        self.clock.discipline.take_offset(now_ns, offset, proven, likely_ns);
        Some(())
    }

    /// The clock is slewed by all that it is off: of what shows its rate, the frequency
    /// is set. Where nothing had disturbed it, and its rate is not known, the next polls
    /// come fast, and tell a rate from an absence before them.
    pub(super) fn learn_rate(&mut self, now_ns: u64, selected: &Selected) {
        let is_rate = matches!(self.clock.phase, KeeperPhase::Settled) && selected.kind.is_server();
        let discipline = &mut self.clock.discipline;
        let is_new_rate =
            is_rate && !discipline.knows_rate() && !discipline.is_wrong_rate_reported();
        if is_new_rate && self.sources.poll_fast(now_ns, &self.policy) {
            self.clock.discipline.forget_offsets();
        }
        if self.learn(now_ns, selected).is_some() {
            let frequency = self.clock.discipline.adjust_frequency(now_ns, self.policy.poll_ns);
            self.actions.add(frequency.map(Action::Discipline));
        }
    }

    /// Reports a clock that runs at another rate than the kernel's frequency can hold,
    /// whatever steps follow it. A voice alone is not believed so much.
    pub(super) fn watch_rate(&mut self, now_ns: u64, selected: &Selected) {
        let is_ours = self.is_kernels() && selected.agreeing.0 >= 2;
        let Some(proven) = selected.proven.filter(|_| is_ours) else { return };
        let ppb = self.clock.discipline.find_wrong_rate(now_ns, proven);
        self.actions.add(ppb.map(|ppb| Action::WrongRate { ppb }));
    }

    /// The clock's error, for the kernel: where that is new, or was last reported some time ago.
    /// Beside another daemon, which reports it, only what our own step has reset.
    pub(super) fn report_error(
        &mut self,
        now_ns: u64,
        by: &Selected,
        is_new: bool,
    ) -> Option<Action> {
        let is_ours = match self.policy.corrector {
            Corrector::Kernel => {
                is_new || now_ns.saturating_sub(self.clock.error_reported_ns) >= REPORT_INTERVAL_NS
            }
            Corrector::Beside => self.clock.owes_error,
            Corrector::Chronyd { .. } => false,
        };
        let needed = self.sources.needed().0;
        if is_ours && by.fresh >= needed && by.showing_time < needed {
            // An RTC's vote moves the clock, and shows no error of it.
            self.forget_error();
        }
        if !is_ours || by.showing_time < needed || self.clock.is_in_doubt(&by.offset) {
            return None;
        }
        let estimated_ns = by.offset.offset_ns.unsigned_abs();
        (self.clock.error_reported_ns, self.clock.owes_error) = (now_ns, false);
        let max_ns = estimated_ns.saturating_add(by.offset.bound_at(now_ns));
        let is_near = max_ns <= self.policy.max_distance_ns;
        let far = Action::SetFigures { max_ns: Some(UNKNOWN_NS), estimated_ns };
        Some(if is_near { Action::SetError(ClockError { max_ns, estimated_ns }) } else { far })
    }

    /// The probable error of a clock that was right and is not measured any more, for the kernel.
    pub(super) fn hold_over(&mut self, now_ns: u64) -> Option<Action> {
        let is_right = self.is_kernels() && matches!(self.clock.phase, KeeperPhase::Settled);
        let KeptBound::Within { offset, is_free_running, .. } = self.error_bound(now_ns) else {
            return None;
        };
        // Once it could have been measured again.
        let is_due = now_ns.saturating_sub(self.clock.error_reported_ns) >= 2 * REPORT_INTERVAL_NS;
        let learnt_ppb = self.frequency().map(|learnt| learnt.uncertainty_ppb);
        // Servers teach none: then it grows as the largest error does.
        let uncertainty_ppb = learnt_ppb.or(is_free_running.then_some(UNKNOWN_PPB));
        let uncertainty_ppb = uncertainty_ppb.filter(|_| is_right && is_due)?;
        self.clock.error_reported_ns = now_ns.saturating_sub(REPORT_INTERVAL_NS);
        let elapsed_ns = now_ns.saturating_sub(offset.at_monotonic_ns) as f64;
        let drifted_ns = (elapsed_ns * uncertainty_ppb * 1e-9) as u64;
        let estimated_ns = offset.offset_ns.unsigned_abs().saturating_add(drifted_ns);
        Some(Action::SetFigures { max_ns: None, estimated_ns })
    }

    /// Something may have moved the clock: what the kernel was given as its error does
    /// not hold until it is measured, and if no source replies, the kernel must not
    /// call it synchronised, nor write it to the RTC.
    pub(super) fn forget_error(&mut self) {
        if self.is_kernels() && std::mem::take(&mut self.clock.error_reported_ns) != 0 {
            let (max_ns, estimated_ns) = (Some(UNKNOWN_NS), UNKNOWN_NS);
            self.actions.add([Action::SetFigures { max_ns, estimated_ns }]);
        }
    }

    /// A step or slew is made: what it moves by one server's word alone counts.
    pub(super) fn count_lone_move(&mut self, by: &Correction, is_slew: bool, now_ns: u64) {
        let kind = self.sources.get(by.source).map(|source| source.kind);
        let is_lone = kind.is_some_and(|kind| is_lone_server(kind, by.agreeing.0));
        let is_accounted_for = self.is_accounted_for(&by.offset(now_ns), now_ns);
        self.clock.count_lone_move(by, is_lone, is_accounted_for, is_slew, now_ns);
    }
}
