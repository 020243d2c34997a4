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

mod chronyd;
mod date;
mod decide;
mod decision;
mod disciplined;
mod explained;
mod judge;
mod known;
mod leap;
mod lone_server;
mod moved_alone;
mod next_leap;
mod phase;
mod polled;
mod reconfigure;
mod requests;
mod scales;
mod set;
mod view;

use std::collections::VecDeque;

use disruptions::{Disruption, Kind};
use units::OffsetBound;

use crate::action::{Action, Cause, Refusal};
use crate::discipline::Discipline;
use crate::offset::Offset;
use crate::policy::{Corrector, Policy};
use crate::rate_limit::RateLimit;
use crate::slewing::Slewing;
use crate::source::SourceKind;
use chronyd::{Chronyd, OWN_STEP_SEEN_NS};
use date::Date;
use explained::Explained;
pub use known::Known;
use moved_alone::MovedAlone;
use next_leap::Leap;
use phase::{Phase, Stage};
use polled::Polled;
pub use polled::RtcView;
pub use view::{ClockState, Next, SourceState, SourceView, View};

/// Requests to one server back to back: three for each of the steps that a
/// burst allows by default, and one more. Then one per eighth of a poll.
const REQUEST_BURST: u32 = 10;

/// The requests allowed to so many servers.
fn request_limit(policy: &Policy, sources: impl Iterator<Item = SourceKind>) -> RateLimit {
    let servers = sources.filter(|kind| kind.is_server()).count().max(1) as u32;
    let each = policy.poll_ns / 8 / u64::from(servers);
    RateLimit::new(REQUEST_BURST.saturating_mul(servers), each)
}

/// The state machine.
#[derive(Debug)]
pub struct Keeper {
    policy: Policy,
    sources: Vec<Polled>,
    steps: RateLimit,
    requests: RateLimit,
    phase: Phase,
    stage: Stage,
    /// What the disruptions since the clock was right account for.
    explained: Explained,
    /// What one server has moved the clock by, alone.
    alone: MovedAlone,
    slewing: Option<Slewing>,
    /// When a disruption was last seen to have begun, or the host to have resumed.
    disrupted_ns: u64,
    /// The last offset that was no reason for a step, since the clock was
    /// disturbed or stepped.
    known: Option<OffsetBound>,
    date: Date,
    /// Evidence comes in that is not classified yet.
    is_gathering: bool,
    /// A step of ours that the next sample will detect: by how much, and when.
    own_step: Option<(i64, u64)>,
    chronyd: Chronyd,
    leap: Leap,
    /// So many polls of servers are made in a hurry.
    hurried: u32,
    /// So they may be: no server had moved when they were polled before, or there was a
    /// disruption.
    may_hurry: bool,
    /// What the driver carries out now.
    pending: Option<Action>,
    /// What it carries out next.
    queued: VecDeque<Action>,
    discipline: Discipline,
    /// When the kernel was last told of the clock's error.
    told_ns: u64,
    /// The last refusal, and when.
    refused: Option<(Refusal, u64)>,
}

impl Keeper {
    /// A keeper with this `policy` and `sources`, none of which it has polled.
    pub fn new(policy: Policy, sources: &[SourceKind]) -> Self {
        Self {
            steps: RateLimit::new(policy.burst, policy.min_interval_ns),
            requests: request_limit(&policy, sources.iter().copied()),
            policy,
            sources: sources.iter().copied().map(Polled::new).collect(),
            phase: Phase::Disturbed(Cause::Start),
            stage: Stage::Done,
            explained: Explained::default(),
            alone: MovedAlone::default(),
            slewing: None,
            disrupted_ns: 0,
            known: None,
            date: Date::Shown,
            is_gathering: false,
            own_step: None,
            chronyd: Chronyd::default(),
            leap: Leap::default(),
            hurried: 0,
            may_hurry: true,
            pending: None,
            queued: VecDeque::new(),
            discipline: Discipline::default(),
            told_ns: 0,
            refused: None,
        }
    }

    /// A sample was taken, and showed these disruptions, without our own
    /// steps.
    pub fn sample(&mut self, now_ns: u64, disruptions: &[Disruption]) {
        self.sources.iter_mut().for_each(Polled::begin);
        for disruption in disruptions {
            self.disturb_frequency(disruption);
            if disruption.kinds.contains(Kind::ClockSet) {
                self.ended_by_a_set(disruption.at_monotonic_ns);
            }
            // A leap second leaves the clock right, and old offsets wrong.
            if disruption.kinds.only() == Some(Kind::ClockSet)
                && matches!(self.phase, Phase::Settled | Phase::SetByAnother)
            {
                self.set_by_another(now_ns);
            } else if disruption.kinds.may_be_wrong() || disruption.kinds.contains(Kind::LeapSecond)
            {
                self.chronyd.disturbed(disruption.at_monotonic_ns);
                // A rate that is known to be wrong shows as absences, and is not news.
                self.may_hurry |= !self.discipline.is_told();
                // What the RTC alone shows is the host's word, which needs another's.
                let is_proven = !disruption.kinds.contains(Kind::RtcSet) || self.needed().0 == 1;
                self.explained.add(disruption, is_proven);
                if disruption.kinds.may_be_wrong() {
                    self.disrupted_ns = self.disrupted_ns.max(disruption.at_monotonic_ns);
                    self.forget_error();
                }
                self.disturb(now_ns, Cause::Disruption(disruption.kinds), None);
            }
        }
        // Servers together, as it takes several in one sample to agree: one whose reply
        // was lost once would be alone for ever.
        let mut servers = self.sources.iter().filter(|source| source.kind.is_server());
        let is_any = servers.any(|source| source.due_ns <= now_ns);
        let soon_ns = now_ns.saturating_add(if is_any { self.policy.poll_ns / 2 } else { 0 });
        let until_ns = |kind: SourceKind| if kind.is_server() { soon_ns } else { now_ns };
        for source in self.sources.iter_mut().filter(|it| it.due_ns <= until_ns(it.kind)) {
            source.want();
        }
        self.stage = Stage::Local;
    }

    /// Whether there is evidence of a disruption that is not classified yet: until it is,
    /// no frequency is learnt of what a set of some microseconds may be in, and no RTC
    /// shows an absence.
    pub fn gathering(&mut self, is_gathering: bool) {
        self.is_gathering = is_gathering;
    }

    /// The clock may be wrong for another reason than a disruption: all
    /// sources are polled at once.
    pub fn suspect(&mut self, now_ns: u64, cause: Cause) {
        self.chronyd.suspected(now_ns);
        self.disrupted_ns = now_ns;
        self.forget_error();
        self.discipline.disrupted();
        self.disturb(now_ns, cause, None);
        self.stage = Stage::Local;
    }

    /// What to do now; `None` until the next sample, or until a source sends
    /// something by itself.
    pub fn next(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.queued.pop_front() {
            return self.begun(action);
        }
        loop {
            if let Some(index) = self.wanted_here() {
                return Some(Action::Measure(vec![index]));
            }
            if let Some(action) = self.decide_by_host(now_ns) {
                return self.begun(action);
            }
            let servers = self.wanted(now_ns);
            if !servers.is_empty() {
                return Some(Action::Measure(servers));
            }
            if self.stage == Stage::Done {
                return None;
            }
            self.stage = Stage::Done;
            if let Some(action) = self.conclude(now_ns) {
                return self.begun(action);
            }
            // No longer done where a source has to confirm its offset.
        }
    }

    /// The offset of source `index`: the reply to [`Action::Measure`], or sent
    /// by itself. `None`: it gave none that can be used.
    pub fn measured(&mut self, index: usize, now_ns: u64, offset: Option<OffsetBound>) {
        let oldest_ns = self.oldest_ns(now_ns);
        let poll_ns = self.poll_ns();
        let shows_time = |source: &Polled| source.kind != SourceKind::Rtc;
        let is_right = matches!(self.phase, Phase::Settled) || !self.sources.iter().any(shows_time);
        let Some(source) = self.sources.get_mut(index) else { return };
        // An RTC moves against a clock that is set as in an absence.
        if source.kind == SourceKind::Rtc && self.is_gathering {
            return;
        }
        if source.kind.is_local() {
            self.stage = Stage::Local;
        } else if self.stage == Stage::Done {
            self.stage = Stage::Servers;
        }
        let Some(offset) = offset.filter(|_| !self.leap.passes(now_ns)) else {
            source.failed(now_ns, poll_ns);
            return;
        };
        let offset = match source.kind {
            SourceKind::Rtc => match source.moved(offset, is_right) {
                Some(moved) => moved,
                None => return source.agrees(now_ns, poll_ns),
            },
            _ => offset,
        };
        let is_first_sample = source.offset.is_none_or(|last| last.at_monotonic_ns < oldest_ns);
        let cause = Cause::SourceMoved(source.kind);
        // The RTC has an offset only where it moved: the first is news, unless
        // a disruption is known already.
        let is_news = source.kind == SourceKind::Rtc
            && source.offset.is_none()
            && matches!(self.phase, Phase::Settled | Phase::Disturbed(Cause::Start));
        let is_later = source.offset.is_some_and(|last| {
            offset.at_monotonic_ns.saturating_sub(last.at_monotonic_ns) >= poll_ns / 2
        });
        let is_right_still = offset.is_within(self.policy.tolerance_ns);
        let is_calm = self.hurried == 0 && is_later && is_right_still && source.kind.is_server();
        let has_moved = source.replied(offset, now_ns, poll_ns)
            || is_news
            || is_first_sample && self.contradicts_earlier(index, &offset, oldest_ns);
        self.may_hurry |= is_calm && !has_moved;
        if has_moved && !self.chronyd.is_stepping(now_ns) {
            if self.sources[index].kind.is_server() && std::mem::take(&mut self.may_hurry) {
                self.hurry(now_ns);
            }
            self.disturb(now_ns, cause, Some(index));
        }
    }

    /// Whether a source's first sample shows something that the others have
    /// not seen yet: each was polled before it, and is of a worse kind.
    fn contradicts_earlier(&self, index: usize, offset: &OffsetBound, oldest_ns: u64) -> bool {
        let kind = self.sources[index].kind;
        let others = || {
            let others = self.sources.iter().enumerate().filter(|(other, _)| *other != index);
            others.filter_map(|(_, other)| {
                let earlier = other.offset.filter(|last| last.at_monotonic_ns >= oldest_ns)?;
                Some((other, earlier))
            })
        };
        others().next().is_some()
            && others().all(|(other, earlier)| {
                // What is pushed comes after what this sample measured.
                let is_earlier = kind.is_pushed() || !other.is_fresh;
                is_earlier && kind < other.kind && !offset.agrees_with(&earlier)
            })
    }

    /// The correction returned last was made, or failed.
    pub fn corrected(&mut self, now_ns: u64, is_made: bool) {
        match self.pending.take() {
            // A failed one counts as well: it is not tried in each sample.
            Some(Action::Slew(by)) => {
                if is_made {
                    self.count_alone(&by, true, now_ns);
                }
                self.slewed(now_ns, if is_made { by.by_ns } else { 0 });
            }
            Some(Action::Step(by)) if is_made => {
                self.count_alone(&by, false, now_ns);
                self.moved_by(by.source);
                self.date.moved(by.by_ns);
                self.explained.moved(by.by_ns, now_ns);
                // A step ends a slew (TK_CLEAR_NTP, kernel/time/timekeeping.c).
                self.slewing = None;
                self.discipline.stepped(now_ns, by.by_ns);
                self.leap_stepped();
                self.own_step = Some((by.by_ns, now_ns));
                self.sources.iter_mut().for_each(|source| source.stepped(by.by_ns, now_ns));
                if self.policy.corrector == Corrector::Beside {
                    self.queued.push_back(Action::Restart);
                }
            }
            Some(Action::Makestep { by, restart }) => {
                self.chronyd.commanded(now_ns, by, restart);
                if is_made {
                    self.moved_by(by.source);
                    // By how much chronyd steps, and when, only it knows.
                    let due_ns = self.chronyd.next_round_ns();
                    self.sources.iter_mut().for_each(|source| source.forget(due_ns));
                }
            }
            Some(Action::Discipline(by)) if is_made => self.discipline.adjusted(now_ns, by),
            Some(Action::Discipline(_)) => self.discipline.failed(),
            Some(Action::SetLeap(leap)) => self.leap_told(now_ns, leap, is_made),
            _ => {}
        }
    }

    /// The clock is, or will be, where that source has it: to be verified.
    fn moved_by(&mut self, source: usize) {
        self.known = None;
        self.phase = Phase::Corrected(self.phase.cause());
        if self.sources[source].kind != SourceKind::Rtc {
            self.sources.iter_mut().for_each(Polled::unlearn);
        }
    }

    /// Nothing measured before counts any more, but for the offset of `moved`, and of
    /// servers that were polled together with it: the limit of requests may not let
    /// them be asked again, and without them there is no majority.
    fn disturb(&mut self, now_ns: u64, cause: Cause, moved: Option<usize>) {
        (self.phase, self.known) = (Phase::Disturbed(cause), None);
        self.discipline.disturbed();
        let together = moved.map(|index| &self.sources[index]).filter(|it| it.kind.is_server());
        let together = together.map(|it| it.polls);
        for (index, source) in self.sources.iter_mut().enumerate() {
            let is_with = source.kind.is_server() && source.is_fresh;
            if Some(index) != moved && !(is_with && Some(source.polls) == together) {
                source.forget(now_ns);
                source.want();
            }
        }
    }

    /// Whether a disruption is the step that [`Keeper::corrected`] reported.
    /// Call it once for each, before [`Keeper::sample`] is given the rest.
    pub fn is_own_step(&mut self, disruption: &Disruption) -> bool {
        if !matches!(disruption.kinds.only(), Some(Kind::ClockSet | Kind::LeapSecond)) {
            return false;
        }
        if self.chronyd.may_have_stepped(disruption.at_monotonic_ns) {
            // Whether the clock is right now is not left to the RTC.
            self.sources.iter_mut().for_each(Polled::poll_soon);
            return true;
        }
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

    /// Notes what the driver carries out.
    fn begun(&mut self, action: Action) -> Option<Action> {
        self.pending = Some(action.clone());
        Some(action)
    }
}

#[cfg(test)]
mod tests;
