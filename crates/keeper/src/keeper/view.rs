//! What the keeper knows, for those who ask: nothing here changes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::OffsetBound;

use super::decision::Decision;
use super::polled::{Polled, RtcView};
use super::{Keeper, Phase};
use crate::action::Refusal;
use crate::choice::{Candidate, Choice, choose};
use crate::offset::Offset;
use crate::policy::Policy;
use crate::source::SourceKind;

/// The clock, the sources, and what would be done now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct View {
    /// The clock's state.
    pub clock: ClockState,
    /// The selected source's index, and the offset that those which agree with
    /// it have together.
    pub selected: Option<(usize, OffsetBound)>,
    /// The sources, by their index.
    pub sources: Vec<SourceView>,
    /// What would be done.
    pub next: Next,
}

/// Whether the clock is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockState {
    /// It was measured, is right, and the sources still show it.
    Synchronised,
    /// It was right; since then too few sources have replied to know.
    Holdover,
    /// It was never measured, or was disturbed since, or is off.
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
pub enum Next {
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

impl Keeper {
    /// Its settings, and what corrects the clock now.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What is known at `now_ns`, by CLOCK_MONOTONIC.
    pub fn view(&self, now_ns: u64) -> View {
        let candidates: Vec<_> = self.candidates(now_ns).map(fresh).collect();
        let choice = choose(&candidates, self.needed().0, now_ns);
        let (is_shown, selected) = match &choice {
            Choice::Of(it) if it.kind != SourceKind::Rtc => {
                (it.agreeing.0 >= self.needed().0, Some((it.source, it.offset)))
            }
            Choice::Of(it) => (false, Some((it.source, it.offset))),
            _ => (false, None),
        };
        let clock = match self.phase {
            Phase::Settled if is_shown => ClockState::Synchronised,
            Phase::Settled => ClockState::Holdover,
            _ => ClockState::Unsynchronised,
        };
        let of_source = |(index, source): (usize, &Polled)| {
            let counts = candidates.iter().find(|one| one.source == index);
            let state = match (counts, &choice) {
                (None, _) if source.agrees_only() => SourceState::TimeAway,
                (None, _) if self.shown(now_ns).any(|one| one.source == index) => {
                    SourceState::OtherScale
                }
                (None, _) => SourceState::NotMeasured,
                (Some(_), Choice::Of(it)) if it.source == index => SourceState::Selected,
                (Some(one), Choice::Of(it)) if overlaps(&one.offset, &it.offset, now_ns) => {
                    SourceState::Combined
                }
                (Some(_), Choice::Of(_)) => SourceState::Falseticker,
                (Some(_), _) => SourceState::Candidate,
            };
            let offset = counts.map(|one| one.offset);
            let bound_ns = offset.map(|offset| offset.bound_at(now_ns));
            SourceView { state, offset, bound_ns, rtc: source.rtc() }
        };
        let sources = self.sources.iter().enumerate().map(of_source).collect();
        View { clock, selected, sources, next: self.next_of(&choice, now_ns) }
    }

    fn next_of(&self, choice: &Choice, now_ns: u64) -> Next {
        let (Choice::Of(selected) | Choice::Contradiction(selected)) = choice else {
            return Next::Wait;
        };
        let by_ns = selected.offset.offset_ns;
        match self.decide(now_ns, choice) {
            Decision::Wait => Next::Wait,
            Decision::Settle | Decision::Leave | Decision::LeaveToDaemon => Next::Nothing,
            Decision::PollStale(why) | Decision::Refuse(why) => Next::Refuse(by_ns, why),
            Decision::Confirm => Next::Refuse(by_ns, Refusal::Unconfirmed),
            Decision::Step => Next::Step(by_ns),
            Decision::Slew(by_ns) => Next::Slew(by_ns),
            Decision::KeepSlew(left_ns) => Next::Slewing(left_ns),
            Decision::Makestep { .. } | Decision::AwaitChronyd => Next::Makestep(by_ns),
        }
    }
}

/// Between two samples nothing was measured in this one: whoever asks is told
/// of the last.
fn fresh(candidate: Candidate) -> Candidate {
    Candidate { is_fresh: true, ..candidate }
}

fn overlaps(one: &OffsetBound, other: &OffsetBound, now_ns: u64) -> bool {
    let (a, b) = (one.interval_at(now_ns), other.interval_at(now_ns));
    a.low <= b.high && b.low <= a.high
}
