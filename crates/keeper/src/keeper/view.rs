//! What the keeper knows, for those who ask: nothing here changes it.

use pvclock::units::OffsetBound;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::Decision;
use super::polled::{PolledSource, RtcView};
use super::{Keeper, KeeperPhase, KeptBound};
use crate::action::Refusal;
use crate::choice::{Candidate, Choice, choose};
use crate::offset::Offset;

/// The clock, the sources, and what would be done now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KeeperView {
    /// The clock's state.
    pub clock: KeeperClockState,
    /// How far it may be off.
    pub known: KeptBound,
    /// The selected source's index, and the offset that those which agree with
    /// it have together.
    pub selected: Option<(usize, OffsetBound)>,
    /// The sources, by their index.
    pub sources: Vec<SourceView>,
    /// What would be done.
    pub next: NextStep,
}

/// Whether the clock is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeeperClockState {
    /// It was measured, is right, and the sources still show it.
    Synchronised,
    /// It was right; since then too few sources have replied to know.
    Holdover,
    /// It was never measured, or was disturbed since, or is off, or left its bound without a known
    /// cause at most two polls ago.
    Unsynchronised,
}

/// A source, as the keeper has it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourceView {
    /// Its state.
    pub state: SourceState,
    /// Its last offset that counts; the RTC's is how long the machine was away.
    pub offset: Option<OffsetBound>,
    /// The error of that is at most this, now, ns: it grows with age.
    pub bound_ns: Option<u64>,
    /// Of the RTC: what it shows itself.
    pub rtc: Option<RtcView>,
}

/// What a source is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// The best of those that agree.
    Selected,
    /// It agrees with the selected one.
    Combined,
    /// The majority contradicts it.
    Falseticker,
    /// It has an offset, and no majority agrees.
    Candidate,
    /// The RTC, which agrees with the clock and measures time away alone.
    TimeAway,
    /// It smears leap seconds and most do not, or the other way round, and one may be
    /// near.
    OtherScale,
    /// No offset of it counts: not polled yet, or not since a disruption.
    NotMeasured,
    /// Its last poll failed.
    Unreachable,
}

/// What the keeper would do with the clock, by what it has measured so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum NextStep {
    /// Nothing: the offset is within the tolerance, or chronyd's to slew.
    Nothing,
    /// Nothing: there is no offset that counts.
    Wait,
    /// A step, ns.
    Step(i64),
    /// A slew, ns.
    Slew(i64),
    /// Nothing but the slew in progress, of which this is left, ns.
    Slewing(i64),
    /// chronyd is sent `makestep`; the offset, ns.
    Makestep(i64),
    /// Nothing, and why; the offset, ns.
    Refuse(i64, Refusal),
}

impl KeeperView {
    pub(super) fn new(keeper: &Keeper, now_ns: u64) -> Self {
        let (all, policy) = (&keeper.sources, &keeper.policy);
        // Between two samples nothing was measured in this one: whoever asks is told of the last.
        let as_fresh = |candidate| Candidate { is_fresh: true, ..candidate };
        let candidates: Vec<_> = all.candidates(now_ns, policy).map(as_fresh).collect();
        let needed = all.needed().0;
        let choice = choose(&candidates, needed, now_ns);
        let (is_shown, selected) = match &choice {
            Choice::Of(selected) => (
                // Beside a server an RTC's seconds show no time.
                selected.showing_time >= needed,
                Some((selected.source, selected.offset)),
            ),
            _ => (false, None),
        };
        let known = keeper.clock.error_bound;
        let is_in_doubt = known.is_some_and(|known| keeper.clock.is_in_doubt(&known));
        let clock = match keeper.clock.phase {
            KeeperPhase::Settled if is_in_doubt => KeeperClockState::Unsynchronised,
            KeeperPhase::Settled if is_shown => KeeperClockState::Synchronised,
            KeeperPhase::Settled => KeeperClockState::Holdover,
            _ => KeeperClockState::Unsynchronised,
        };
        let of_source = |(index, source): (usize, &PolledSource)| {
            let counts = candidates.iter().find(|candidate| candidate.source == index);
            let state = match (counts, &choice) {
                (None, _) if source.agrees_only() => SourceState::TimeAway,
                (None, _)
                    if all
                        .measured_candidates(now_ns, policy)
                        .any(|measured| measured.source == index) =>
                {
                    SourceState::OtherScale
                }
                (None, _) => SourceState::NotMeasured,
                (Some(_), Choice::Of(selected)) if selected.source == index => {
                    SourceState::Selected
                }
                (Some(candidate), Choice::Of(selected))
                    if candidate.offset.overlaps(&selected.offset, now_ns) =>
                {
                    SourceState::Combined
                }
                (Some(_), Choice::Of(_)) => SourceState::Falseticker,
                (Some(_), _) => SourceState::Candidate,
            };
            let offset = counts.map(|one| one.offset);
            let bound_ns = offset.map(|offset| offset.bound_at(now_ns));
            SourceView { state, offset, bound_ns, rtc: source.rtc() }
        };
        let sources = all.iter().enumerate().map(of_source).collect();
        let (known, next) = (keeper.error_bound(now_ns), NextStep::new(keeper, &choice, now_ns));
        Self { clock, known, selected, sources, next }
    }
}

impl NextStep {
    fn new(keeper: &Keeper, choice: &Choice, now_ns: u64) -> Self {
        let (Choice::Of(selected) | Choice::Contradiction(selected)) = choice else {
            return Self::Wait;
        };
        let by_ns = selected.offset.offset_ns;
        match keeper.decide(now_ns, choice) {
            Decision::Wait => Self::Wait,
            Decision::Settle | Decision::Leave | Decision::LeaveToDaemon => Self::Nothing,
            Decision::PollStale(why) | Decision::Refuse(why) => Self::Refuse(by_ns, why),
            Decision::Confirm => Self::Refuse(by_ns, Refusal::Unconfirmed),
            Decision::Step => Self::Step(by_ns),
            Decision::Slew(by_ns) => Self::Slew(by_ns),
            Decision::KeepSlew(left_ns) => Self::Slewing(left_ns),
            Decision::Makestep { .. } | Decision::AwaitChronyd => Self::Makestep(by_ns),
        }
    }
}
