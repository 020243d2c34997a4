//! The keeper: what was seen and measured in, what to do out.
//!
//! In calm it asks local sources at each look and the others each
//! [`Policy::poll_ns`]. A disruption, or a source that moved against the clock
//! though nothing was seen, makes all that was measured before worthless: all
//! sources are asked at once. After a step they are asked again, to see that
//! it was right.
//!
//! Local ones come first, and where the host's clock among them says that the
//! clock is off, it is corrected before a server is waited for. A host that
//! servers outvoted the last time has to wait for them.

mod asked;
mod chronyd;
mod judge;

use disruptions::{Disruption, Kind};

use crate::action::{Action, Cause, Refusal};
use crate::allowance::Allowance;
use crate::choice::{Candidate, Choice, choose};
use crate::policy::Policy;
use crate::slewing::Slewing;
use crate::source::{Reading, SourceKind};
use asked::{SECOND_NS, Source};
use chronyd::Chronyd;

/// A setting of the clock that is seen so long after ours, or chronyd's, may be
/// that.
const OWN_STEP_SEEN_NS: u64 = 5 * SECOND_NS;

/// Requests that one server may get in a row: three for each of the steps
/// allowed in a row by default, and one more. Then one each eighth of a poll.
const REQUESTS_IN_A_ROW: u32 = 10;

/// The state machine.
#[derive(Debug)]
pub struct Keeper {
    policy: Policy,
    sources: Vec<Source>,
    steps: Allowance,
    requests: Allowance,
    slewing: Option<Slewing>,
    /// A step that whoever looks will see: by how much, and when.
    own_step: Option<(i64, u64)>,
    cause: Option<Cause>,
    /// What the driver does now, of what was decided.
    under_way: Option<Action>,
    is_decided: bool,
    /// It was decided by what local sources say, before servers are asked.
    is_hurried: bool,
    /// Somebody better than the board's clock was gone by since time was last
    /// disturbed.
    is_led: bool,
    /// The clock was found right since it was last disturbed.
    is_settled: bool,
    /// What chronyd was asked.
    chronyd: Chronyd,
    /// What goes with what was just told.
    next: Option<Action>,
    said: Option<(Refusal, u64)>,
}

impl Keeper {
    /// A keeper that goes by `policy` and `sources`, which it has not asked
    /// yet.
    pub fn new(policy: Policy, sources: &[SourceKind]) -> Self {
        let is_server = |kind: &&SourceKind| !kind.is_local() && !kind.is_told();
        let servers = sources.iter().filter(is_server).count().max(1) as u32;
        let each = policy.poll_ns / 8 / u64::from(servers);
        Self {
            steps: Allowance::new(policy.burst, policy.min_interval_ns),
            requests: Allowance::new(REQUESTS_IN_A_ROW.saturating_mul(servers), each),
            policy,
            sources: sources.iter().copied().map(Source::new).collect(),
            slewing: None,
            own_step: None,
            cause: Some(Cause::Start),
            under_way: None,
            is_decided: true,
            is_hurried: true,
            is_led: false,
            is_settled: false,
            chronyd: Chronyd::default(),
            next: None,
            said: None,
        }
    }

    /// A look was taken, and showed these disruptions, our own steps not among
    /// them.
    pub fn look(&mut self, now_ns: u64, seen: &[Disruption]) {
        self.sources.iter_mut().for_each(Source::begin);
        for disruption in seen {
            // A leap second leaves the clock right, and readings wrong.
            if disruption.kind.may_be_wrong() || disruption.kind == Kind::LeapSecond {
                self.chronyd.disturbed(disruption.at_monotonic_ns);
                self.alarm(now_ns, Cause::Disruption(disruption.kind), None);
            }
        }
        for source in self.sources.iter_mut().filter(|source| source.due_ns <= now_ns) {
            source.want();
        }
        (self.is_decided, self.is_hurried) = (false, false);
    }

    /// There is another reason than a disruption that was seen to ask all
    /// sources at once.
    pub fn suspect(&mut self, now_ns: u64, cause: Cause) {
        self.chronyd.told(now_ns);
        self.alarm(now_ns, cause, None);
        (self.is_decided, self.is_hurried) = (false, false);
    }

    /// Somebody set the clock since it was measured, so that nothing measured
    /// counts: the correction that was asked for, if any, is not made, in
    /// place of [`Keeper::corrected`]. Corrections are relative; made on top
    /// of somebody else's this one would put the clock wrong.
    pub fn was_set(&mut self, now_ns: u64) {
        self.next = None;
        if let Some(Action::Step(_)) = self.under_way.take() {
            self.steps.give_back();
        }
        // A set ends a slew (TK_CLEAR_NTP, kernel/time/timekeeping.c).
        if let Some(slewing) = &mut self.slewing {
            slewing.by_ns = 0;
        }
        self.suspect(now_ns, Cause::Disruption(Kind::ClockSet));
    }

    /// What to do now; none until the next look, or until a source tells
    /// something by itself.
    pub fn next(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.next.take() {
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
            if std::mem::replace(&mut self.is_decided, true) {
                return None;
            }
            if let Some(action) = self.decide(now_ns) {
                return self.begun(action);
            }
            // Open again where a source is to say it twice.
        }
    }

    /// A local source to be asked now.
    fn wanted_here(&mut self) -> Option<usize> {
        let is_here = |source: &Source| source.is_wanted && source.kind.is_local();
        let index = self.sources.iter().position(is_here)?;
        self.sources[index].ask();
        Some(index)
    }

    /// The servers to be asked now, and not too often.
    fn wanted(&mut self, now_ns: u64) -> Vec<usize> {
        let mut wanted = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            if !source.is_wanted {
                continue;
            }
            source.ask();
            match self.requests.take(now_ns) {
                Ok(()) => wanted.push(index),
                Err(wait_ns) => source.due_ns = now_ns.saturating_add(wait_ns),
            }
        }
        wanted
    }

    /// What source `index` said: its answer to [`Action::Measure`], or by
    /// itself. `None`: nothing to go by.
    pub fn measured(&mut self, index: usize, now_ns: u64, reading: Option<Reading>) {
        let (oldest_ns, poll_ns) = (self.oldest_ns(now_ns), self.policy.poll_ns);
        let Some(source) = self.sources.get_mut(index) else { return };
        self.is_decided = false;
        self.is_hurried &= !source.kind.is_local();
        let Some(reading) = reading else {
            source.failed(now_ns, poll_ns);
            return;
        };
        let is_first = source.reading.is_none_or(|earlier| earlier.at_ns < oldest_ns);
        let cause = Cause::SourceMoved(source.kind);
        let has_moved = source.answered(reading, now_ns, poll_ns);
        let is_news = has_moved || is_first && self.is_news(index, &reading, oldest_ns);
        if is_news && !self.chronyd.is_at_it(now_ns) {
            self.alarm(now_ns, cause, Some(index));
        }
    }

    /// Whether a source's first reading tells of something that others have
    /// not seen yet: each was asked before it, and is of a worse kind.
    fn is_news(&self, index: usize, reading: &Reading, oldest_ns: u64) -> bool {
        let kind = self.sources[index].kind;
        let others = || {
            let others = self.sources.iter().enumerate().filter(|(other, _)| *other != index);
            others.filter_map(|(_, other)| {
                let earlier = other.reading.filter(|earlier| earlier.at_ns >= oldest_ns)?;
                Some((other, earlier))
            })
        };
        others().next().is_some()
            && others().all(|(other, earlier)| {
                // What is told by itself comes after what this look measured.
                let is_earlier = kind.is_told() || !other.is_fresh;
                is_earlier && kind < other.kind && !reading.agrees_with(&earlier)
            })
    }

    /// The correction last asked for was made, or could not be.
    pub fn corrected(&mut self, now_ns: u64, is_made: bool) {
        match self.under_way.take() {
            // One that failed counts as well: it is not tried at each look.
            Some(Action::Slew(by)) => {
                let by_ns = if is_made { by.by_ns } else { 0 };
                self.slewing = Some(Slewing { by_ns, since_ns: now_ns });
            }
            Some(Action::Step(by)) if is_made => {
                self.moved_by(by.source);
                // A step ends a slew (TK_CLEAR_NTP, kernel/time/timekeeping.c).
                self.slewing = None;
                self.own_step = Some((by.by_ns, now_ns));
                self.sources.iter_mut().for_each(|source| source.stepped(by.by_ns, now_ns));
            }
            Some(Action::AskChronyd { by, anew }) => {
                self.chronyd.asked(now_ns, by, anew);
                if is_made {
                    self.moved_by(by.source);
                    // By how much chronyd steps it knows itself, and when.
                    let due_ns = self.chronyd.next_round_ns();
                    self.sources.iter_mut().for_each(|source| source.forget(due_ns));
                }
            }
            _ => {}
        }
    }

    /// The clock is, or will be, where that source has it: to be seen.
    fn moved_by(&mut self, source: usize) {
        self.is_settled = false;
        self.note_led(source);
    }

    /// What was measured before does not count any more, but for `moved`.
    fn alarm(&mut self, now_ns: u64, cause: Cause, moved: Option<usize>) {
        self.cause = Some(cause);
        (self.is_settled, self.is_led) = (false, false);
        for (index, source) in self.sources.iter_mut().enumerate() {
            if Some(index) != moved {
                source.forget(now_ns);
                source.want();
            }
        }
    }

    /// Whether a disruption is what [`Keeper::corrected`] told of, and no news:
    /// asked once for each, before [`Keeper::look`] hears of it.
    pub fn is_own_step(&mut self, seen: &Disruption) -> bool {
        if !matches!(seen.kind, Kind::ClockSet | Kind::LeapSecond) {
            return false;
        }
        if self.chronyd.may_have_stepped(seen.at_monotonic_ns) {
            // Whether it is right now is not left to the board's clock.
            self.sources.iter_mut().for_each(Source::ask_soon);
            return true;
        }
        let Some((by_ns, at_ns)) = self.own_step else { return false };
        let by_ns = by_ns as f64;
        let is_near = |size_ns: f64| (size_ns - by_ns).abs() <= 1e6 + by_ns.abs() / 100.0;
        let since_ns = seen.at_monotonic_ns.checked_sub(at_ns);
        let is_own = since_ns.is_some_and(|since_ns| since_ns <= OWN_STEP_SEEN_NS)
            && seen.size.is_none_or(|size| is_near(size.ns));
        if is_own {
            self.own_step = None;
        }
        is_own
    }

    /// What was measured before this does not count any more.
    fn oldest_ns(&self, now_ns: u64) -> u64 {
        let for_ns = self.policy.poll_ns.saturating_mul(2).saturating_add(5 * SECOND_NS);
        now_ns.saturating_sub(for_ns)
    }

    fn candidates(&self, now_ns: u64) -> Vec<Candidate> {
        let oldest_ns = self.oldest_ns(now_ns);
        let candidate = |(index, source): (usize, &Source)| {
            let reading = source.reading.filter(|reading| reading.at_ns >= oldest_ns)?;
            let (kind, is_fresh) = (source.kind, source.is_fresh);
            Some(Candidate { source: index, kind, reading, is_fresh })
        };
        self.sources.iter().enumerate().filter_map(candidate).collect()
    }

    /// Corrects by the host's clock, where servers would be waited for: one
    /// that does not answer takes a second.
    fn decide_by_host(&mut self, now_ns: u64) -> Option<Action> {
        let is_server_wanted = self.sources.iter().any(|source| source.is_wanted);
        if !is_server_wanted || std::mem::replace(&mut self.is_hurried, true) {
            return None;
        }
        let Choice::Of(chosen) = choose(&self.candidates(now_ns), now_ns) else { return None };
        let may = chosen.kind.is_local()
            && chosen.kind.needs_no_second()
            && !self.sources[chosen.source].is_outvoted;
        let is_off = !chosen.reading.is_within(self.policy.tolerance_ns);
        // Refused it would be for good; the servers may explain it.
        (may && is_off && !self.is_beyond(&chosen)).then(|| self.judge(now_ns, &chosen))?
    }

    fn decide(&mut self, now_ns: u64) -> Option<Action> {
        let candidates = self.candidates(now_ns);
        match choose(&candidates, now_ns) {
            Choice::Nothing => self.go_on(now_ns),
            Choice::Contradiction(chosen) => {
                let correction = self.correction(&chosen);
                self.refuse(now_ns, correction, Refusal::Contradiction)
            }
            Choice::Of(chosen) => {
                for one in &candidates {
                    self.sources[one.source].is_outvoted = one.kind < chosen.kind;
                }
                let action = self.judge(now_ns, &chosen);
                if !self.is_decided || !self.is_to_be_fed(&chosen) {
                    return action;
                }
                self.next = action;
                Some(Action::FeedChronyd(chosen.reading))
            }
        }
    }

    /// Notes what the driver does: for a correction it will answer.
    fn begun(&mut self, action: Action) -> Option<Action> {
        self.under_way = Some(action.clone());
        Some(action)
    }
}

#[cfg(test)]
mod tests;
