//! The clock: whether it is right, how far it may be off, and what has moved it.

use disruptions::Disruption;
use pvclock::units::OffsetBound;

use super::date::DateGuard;
use super::disruption_budget::DisruptionBudget;
use super::lone_moves::{LONE_SERVER_NS, LoneMoves};
use super::phase::KeeperPhase;
use super::polled::SECOND_NS;
use crate::action::{Correction, CorrectionCause, Refusal};
use crate::choice::Selected;
use crate::discipline::{Adjustment, Discipline};
use crate::offset::Offset;
use crate::policy::{Corrector, Policy};
use crate::slewing::Slewing;

/// Without a measurement for this long beyond a poll the clock runs free.
const FREE_RUNNING_NS: u64 = 10 * SECOND_NS;

/// A clock set detected within this time after our step, or chronyd's, may be
/// that step.
pub(super) const OWN_STEP_SEEN_NS: u64 = 5 * SECOND_NS;

/// What a bound grows by where the clock's rate is not known, ppb: what the kernel adds to its largest
/// error, and the most that its frequency can hold (MAXFREQ, include/linux/timex.h).
pub const UNKNOWN_PPB: f64 = 500_000.0;

/// The kernel's largest error, by which it sets STA_UNSYNC (NTP_PHASE_LIMIT,
/// include/linux/timex.h).
pub(super) const UNKNOWN_NS: u64 = 16 * SECOND_NS;

/// How far the clock may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptBound {
    /// Nothing is known: it was not measured yet, another process set it, or it left its bound
    /// without a known cause.
    Unknown,
    /// A disruption moved it, and it was not measured since.
    Disrupted,
    /// It was off by this at most, when it was measured.
    Within {
        /// The last offset, by as many sources as a correction takes.
        offset: OffsetBound,
        /// By this the bound grows, ppb: by what is known of the clock's rate, and of its
        /// oscillator. A slew that is under way is within the bound.
        growth_ppb: u32,
        /// The kernel's frequency, where the keeper holds it, ppb: a counter that the kernel does
        /// not steer is slower by this.
        frequency_ppb: i32,
        /// No source was measured for longer than a poll, or it is off by more than counts as
        /// synchronised.
        is_free_running: bool,
    },
}

impl KeptBound {
    /// By how much the clock is off at most at `now_ns`, CLOCK_MONOTONIC, ns.
    pub fn error_ns(&self, now_ns: u64) -> Option<u64> {
        let Self::Within { offset, growth_ppb, .. } = self else { return None };
        let age_ns = now_ns.saturating_sub(offset.at_monotonic_ns);
        Some(most_ns(offset, u64::from(*growth_ppb), age_ns))
    }
}

/// The clock had left its bound, so it may run at a rate that no bound grows by.
#[derive(Debug, Default)]
struct RateDoubt {
    /// The bound before a source moved.
    before_move: Option<OffsetBound>,
    /// What was measured before this, CLOCK_MONOTONIC, ns, bounds nothing.
    until_ns: u64,
    /// How long the doubt lasts after a measurement that is off, ns.
    lasts_ns: u64,
}

/// How far a clock was off at least, as it was measured, ns.
fn least_ns(measured: &OffsetBound) -> u64 {
    measured.offset_ns.unsigned_abs().saturating_sub(measured.bound_ns)
}

/// How far it is off at most so much later, ns.
fn most_ns(known: &OffsetBound, growth_ppb: u64, later_ns: u64) -> u64 {
    let grown = (u128::from(later_ns) * u128::from(growth_ppb)).div_ceil(1_000_000_000);
    let bound_ns = known.bound_ns.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX));
    known.offset_ns.unsigned_abs().saturating_add(bound_ns)
}

/// The clock, and what is done to it.
#[derive(Debug)]
pub(super) struct KeeperClock {
    pub(super) phase: KeeperPhase,
    /// The last offset that was no reason for a step, since the clock was
    /// disturbed or stepped.
    pub(super) error_bound: Option<OffsetBound>,
    doubt: RateDoubt,
    /// When the kernel was given the clock's error last; 0 where that was taken back.
    pub(super) error_reported_ns: u64,
    /// A step of ours has reset the kernel's error, which it was not given since.
    pub(super) owes_error: bool,
    pub(super) date: DateGuard,
    pub(super) disruption_budget: DisruptionBudget,
    /// When a disruption was last seen to have begun, or the host to have resumed.
    pub(super) disrupted_ns: u64,
    pub(super) slewing: Option<Slewing>,
    /// A step of ours that the next sample will detect: by how much, and when.
    pub(super) own_step: Option<(i64, u64)>,
    pub(super) lone_moves: LoneMoves,
    pub(super) discipline: Discipline,
}

impl Default for KeeperClock {
    fn default() -> Self {
        Self {
            phase: KeeperPhase::Disturbed(CorrectionCause::Start),
            error_bound: None,
            doubt: RateDoubt::default(),
            error_reported_ns: 0,
            owes_error: false,
            date: DateGuard::Shown,
            disruption_budget: DisruptionBudget::default(),
            disrupted_ns: 0,
            slewing: None,
            own_step: None,
            lone_moves: LoneMoves::default(),
            discipline: Discipline::default(),
        }
    }
}

impl KeeperClock {
    /// How far it may be off at `now_ns`; the machine may have been away until `away_until_ns`.
    pub(super) fn error_bound(
        &self,
        now_ns: u64,
        policy: &Policy,
        away_until_ns: Option<u64>,
    ) -> KeptBound {
        if let Some(offset) = self.error_bound {
            if away_until_ns.is_some_and(|away_until_ns| offset.at_monotonic_ns <= away_until_ns) {
                return KeptBound::Disrupted;
            }
            if self.is_in_doubt(&offset) {
                return KeptBound::Unknown;
            }
            let age_ns = now_ns.saturating_sub(offset.at_monotonic_ns);
            let growth_ppb = self.growth_ppb(policy) as u32;
            let is_free_running = age_ns > policy.poll_ns.saturating_add(FREE_RUNNING_NS)
                || most_ns(&offset, growth_ppb.into(), age_ns) > policy.max_distance_ns;
            let frequency_ppb = match policy.corrector {
                Corrector::Kernel => self.discipline.set_ppb().round() as i32,
                _ => 0,
            };
            return KeptBound::Within { offset, growth_ppb, frequency_ppb, is_free_running };
        }
        match self.phase {
            KeeperPhase::Disturbed(CorrectionCause::Start)
            | KeeperPhase::SetByAnother
            | KeeperPhase::Settled => KeptBound::Unknown,
            KeeperPhase::Disturbed(_) | KeeperPhase::Corrected(_) => KeptBound::Disrupted,
        }
    }

    /// By how much the bound grows, ppb: by the interval in which the rate was measured to be, and
    /// the stated stability of the oscillator. Without a measured rate, or beside another daemon,
    /// which may set it, by as much as the kernel could steer.
    fn growth_ppb(&self, policy: &Policy) -> u64 {
        let is_ours = policy.corrector == Corrector::Kernel;
        let known_ppb = self.discipline.rate_error_ppb().filter(|_| is_ours);
        known_ppb.map_or(UNKNOWN_PPB as u64, |known_ppb| {
            (known_ppb.ceil() as u64)
                .saturating_add(policy.max_clock_error_ppb)
                .min(UNKNOWN_PPB as u64)
        })
    }

    /// Checks a measurement by enough sources against the bound that was known before it. A clock
    /// that is beyond it was moved, or it runs off faster than a bound grows: 7 % fast it is 35 ms
    /// off half a second after each step. Then it is so again within twice the time between the
    /// two measurements, and until that has passed without it, nothing bounds the error.
    pub(super) fn check_against_bound(&mut self, measured: &OffsetBound, policy: &Policy) {
        let at_ns = measured.at_monotonic_ns;
        let before = self.error_bound.or(self.doubt.before_move.take());
        let took_ns = before.map(|before| at_ns.saturating_sub(before.at_monotonic_ns));
        if let Some((known, took_ns)) = self.error_bound.zip(took_ns)
            && least_ns(measured) > most_ns(&known, self.growth_ppb(policy), took_ns)
        {
            // It runs off faster than its rate and its oscillator allow: they are not known.
            self.discipline.forget_offsets();
        }
        if let Some((before, took_ns)) = before.zip(took_ns)
            && least_ns(measured) > most_ns(&before, UNKNOWN_PPB as u64, took_ns)
        {
            let lasts_ns = 2 * took_ns.min(policy.poll_ns);
            self.doubt.lasts_ns = self.doubt.lasts_ns.max(lasts_ns);
            self.doubt.until_ns = at_ns.saturating_add(self.doubt.lasts_ns);
        } else if self.error_bound.is_none() && !measured.is_within(policy.tolerance_ns) {
            self.doubt.until_ns = at_ns.saturating_add(self.doubt.lasts_ns);
        } else if at_ns >= self.doubt.until_ns {
            self.doubt = RateDoubt::default();
        }
    }

    /// Whether the clock may run off faster than a bound grows, by what was measured.
    pub(super) fn is_in_doubt(&self, measured: &OffsetBound) -> bool {
        self.doubted_until_ns(measured).is_some()
    }

    /// The same: from when on a measurement can end that doubt.
    pub(super) fn doubted_until_ns(&self, measured: &OffsetBound) -> Option<u64> {
        let until_ns = self.doubt.until_ns;
        (measured.at_monotonic_ns < until_ns).then_some(until_ns)
    }

    /// Notes an offset that is no reason for a step: of the `needed` sources that have
    /// to agree, each shows the time and was measured in this sample.
    pub(super) fn note(&mut self, selected: &Selected, needed: usize) {
        if selected.showing_time >= needed {
            self.error_bound = Some(selected.offset);
            self.discipline.note_bound();
        }
    }

    /// Nothing measured before counts any more.
    pub(super) fn disturb(&mut self, cause: CorrectionCause) {
        match cause {
            // A source seen to move is how a wrong rate shows.
            CorrectionCause::SourceMoved(_) => {
                self.doubt.before_move = self.error_bound.or(self.doubt.before_move);
            }
            // It has the clock measured, and accounts for nothing.
            CorrectionCause::GateWaits => self.doubt.before_move = None,
            // It accounts for what was off.
            _ => self.doubt = RateDoubt::default(),
        }
        (self.phase, self.error_bound) = (KeeperPhase::Disturbed(cause), None);
        self.discipline.forget_offsets();
    }

    /// Whether the host reported the pause, and was measured after the sample that first showed
    /// it: that holds, however late the pause is classified, as a host that speaks once a
    /// restore cannot be asked again. What else moves a clock may go on moving it.
    pub(super) fn is_told_since(&self, disruption: &Disruption) -> bool {
        let is_told =
            matches!(self.phase, KeeperPhase::Corrected(Some(CorrectionCause::HostResumed)));
        let is_since = |known: OffsetBound| known.at_monotonic_ns > disruption.at_monotonic_ns;
        is_told && self.error_bound.is_some_and(is_since)
    }

    /// It is, or will be, where a source has it: to be verified.
    pub(super) fn correct(&mut self) {
        self.error_bound = None;
        self.phase = KeeperPhase::Corrected(self.phase.cause());
    }

    /// It was stepped by this. The kernel adds exactly what it is given (ADJ_SETOFFSET), so
    /// what enough sources showed holds for the stepped clock: a host that is heard once a
    /// restore verifies nothing. Beside another daemon, which may have stepped too, it is not
    /// shown until it is verified.
    pub(super) fn step(&mut self, by: &Correction, is_shown: bool, now_ns: u64) {
        let by_ns = by.by_ns;
        self.correct();
        let after = Correction { by_ns: 0, ..*by }.offset(now_ns);
        self.error_bound = is_shown.then_some(after);
        self.date.step(by_ns);
        self.disruption_budget.step(by_ns, now_ns);
        // A step ends a slew (TK_CLEAR_NTP, kernel/time/timekeeping.c).
        self.slewing = None;
        self.discipline.note_step(now_ns, by_ns);
        self.discipline.note_bound();
        self.own_step = Some((by_ns, now_ns));
        self.owes_error = true;
    }

    /// A slew of ours began, beside those of the discipline.
    pub(super) fn slew(&mut self, by_ns: i64, now_ns: u64) {
        let slewing = Slewing { by_ns, since_ns: now_ns };
        self.slewing = Some(slewing);
        self.discipline.note_slew(slewing);
    }

    /// A set of the clock, noticed at `at_ns`, ended a slew (TK_CLEAR_NTP,
    /// kernel/time/timekeeping.c), but none that was begun since: a set is known some
    /// samples later. Whether one that was begun before may still be in progress, as it may
    /// have been begun after the set.
    pub(super) fn end_slew(&mut self, at_ns: u64) -> bool {
        let may_slew = self.discipline.is_slewing(at_ns);
        if let Some(slewing) = self.slewing.as_mut().filter(|slewing| slewing.since_ns <= at_ns) {
            slewing.by_ns = 0;
        }
        self.discipline.end_slew(at_ns);
        may_slew
    }

    /// What is left of the slew in progress, ns.
    pub(super) fn slew_left_ns(&self, now_ns: u64) -> i64 {
        self.slewing.map_or(0, |slewing| slewing.left_ns(now_ns))
    }

    /// What the kernel may yet make of a slew, ns: it begins with its next second, and goes on
    /// where the discipline has forgotten it.
    pub(super) fn slew_left_at_most_ns(&self, now_ns: u64) -> i64 {
        let begun_ns = now_ns.saturating_sub(SECOND_NS);
        match self.discipline.slew_left_ns(begun_ns) {
            0 => self.slew_left_ns(begun_ns),
            left_ns => left_ns,
        }
    }

    /// Whether a disruption is the step of ours that it was not detected as yet.
    pub(super) fn take_own_step(&mut self, disruption: &Disruption) -> bool {
        let Some((by_ns, at_ns)) = self.own_step else { return false };
        let by_ns = by_ns as f64;
        let is_near = |size_ns: f64| (size_ns - by_ns).abs() <= 1e6 + by_ns.abs() / 100.0;
        let since_ns = disruption.at_monotonic_ns.checked_sub(at_ns);
        let is_own = since_ns.is_some_and(|since_ns| since_ns <= OWN_STEP_SEEN_NS)
            && disruption.size.is_none_or(|size| is_near(size.ns));
        if is_own {
            self.own_step = None;
        }
        is_own
    }

    /// Whether the disruptions since it was right account for an offset. `learnt_ppb` is
    /// how well its frequency is known, and `is_believed` that one voice needs no other.
    pub(super) fn is_accounted_for(
        &self,
        offset: &OffsetBound,
        policy: &Policy,
        learnt_ppb: Option<f64>,
        is_believed: bool,
        now_ns: u64,
    ) -> bool {
        let left_ns = policy.tolerance_ns.saturating_add(offset.bound_ns.saturating_mul(2));
        let ran_ns = if is_believed { Some(0) } else { self.ran_off_ns(learnt_ppb, now_ns) };
        let covers = |ran_ns| self.disruption_budget.covers(offset, left_ns, ran_ns, now_ns);
        ran_ns.is_some_and(covers)
    }

    /// By how much it may have run off since it was known to be right, ns; `None`
    /// where it never was. What a disruption left is not what is wrong with a clock that
    /// was off before, and who lies may say that it is. A voice that needs no other is
    /// believed what it shows anyway, as far as it may.
    fn ran_off_ns(&self, learnt_ppb: Option<f64>, now_ns: u64) -> Option<u64> {
        let age_ns = self.disruption_budget.age_ns(now_ns)? as f64;
        Some((age_ns * learnt_ppb.unwrap_or(UNKNOWN_PPB) * 1e-9) as u64)
    }

    /// Whether one server alone may move it by this.
    pub(super) fn check_lone_move(&self, by_ns: u64, now_ns: u64) -> Result<(), Refusal> {
        if by_ns > LONE_SERVER_NS {
            return Err(Refusal::LoneServer { most_ns: LONE_SERVER_NS });
        }
        self.lone_moves.check(by_ns, now_ns).map_err(|wait_ns| Refusal::LoneServerAgain {
            moved_ns: self.lone_moves.sum_ns(now_ns),
            most_ns: LONE_SERVER_NS,
            wait_ns,
        })
    }

    /// A step, or a slew, is made by the word of one server alone or of others. Disruptions
    /// are a reason of their own for what they account for, and for no more.
    pub(super) fn count_lone_move(
        &mut self,
        by: &Correction,
        is_lone: bool,
        is_accounted_for: bool,
        is_slew: bool,
        now_ns: u64,
    ) {
        let left_ns = self.slew_left_ns(now_ns);
        let counted_ns = match (is_lone, is_accounted_for) {
            (false, _) => 0,
            (true, true) => self.disruption_budget.beyond_ns(by.by_ns),
            (true, false) => by.by_ns.unsigned_abs(),
        };
        self.lone_moves.begin(if is_slew { counted_ns } else { 0 }, left_ns.unsigned_abs());
        self.lone_moves.add(counted_ns, now_ns);
    }

    /// It is right by one server alone: what that has it slew by is counted, and left out
    /// where it is too much.
    pub(super) fn limit_lone_slew(
        &mut self,
        adjustment: Option<Adjustment>,
        now_ns: u64,
    ) -> Option<Adjustment> {
        let by_ns = adjustment?.slew_ns.map_or(0, i64::unsigned_abs);
        if self.lone_moves.check(by_ns, now_ns).is_ok() {
            self.lone_moves.add(by_ns, now_ns);
            return adjustment;
        }
        let frequency = Adjustment { slew_ns: None, ..adjustment? };
        (frequency != Adjustment::default()).then_some(frequency)
    }
}
