//! The sources as a whole: which are polled now, which count, and how many have to agree.
//!
//! UTC and smeared UTC are two scales, which are not mixed where they may differ. That is
//! from noon of 30 June and of 31 December to the next noon: whether a second is inserted
//! then, who smears it does not announce. Sources of one scale count meanwhile, that of more
//! voices, and UTC of two as many; not of those that reply, or the clock would go to and fro
//! by half a second as they do. How many have to agree stays as it is (docs/decisions/corrections.md).

use std::ops::{Deref, DerefMut};

use pvclock::units::{OffsetBound, calendar};

use super::phase::KeeperPhase;
use super::polled::{DAY_NS, PolledSource, SECOND_NS};
use crate::action::CorrectionCause;
use crate::choice::{Candidate, Choice, Selected, choose};
use crate::offset::Offset;
use crate::policy::Policy;
use crate::rate_limit::RateLimit;
use crate::source::AnnouncedScale;
use crate::source::{SourceKind, Voice};

/// Requests to one server back to back: three for each of the steps that a
/// burst allows by default, and one more. Then one per eighth of a poll.
const REQUEST_BURST: u32 = 10;

/// Of those, so many to each server are left for a disruption by whoever asks for a smaller bound:
/// two steps.
pub(super) const SPARED_REQUESTS: u32 = 6;

/// After a server moved against the clock this many polls come fast, each after
/// this part of the interval, to tell an absence from a wrong rate. A rate that continues
/// is no reason for more of them.
const FAST_POLLS: u32 = 16;
const FAST_PART: u64 = 8;

/// The sources, by their index, and the requests to servers.
#[derive(Debug)]
pub(super) struct KnownSources {
    all: Vec<PolledSource>,
    /// How many voices they have.
    configured: usize,
    pub(super) requests: RateLimit,
    /// Polls of servers that are still to come fast.
    fast_polls_left: u32,
    /// Fast polls may begin: no server had moved when they were polled before, or there was
    /// a disruption.
    pub(super) fast_polls_allowed: bool,
    /// The time of day less CLOCK_MONOTONIC, as of the last reply, ns.
    pub(super) realtime_ns: i128,
}

impl Deref for KnownSources {
    type Target = [PolledSource];

    fn deref(&self) -> &[PolledSource] {
        &self.all
    }
}

impl DerefMut for KnownSources {
    fn deref_mut(&mut self) -> &mut [PolledSource] {
        &mut self.all
    }
}

/// The rate limit of requests to all servers.
fn request_limit(policy: &Policy, sources: &[PolledSource]) -> RateLimit {
    let servers = sources.iter().filter(|source| source.kind.is_server()).count().max(1) as u32;
    let interval_ns = policy.poll_ns / 8 / u64::from(servers);
    RateLimit::new(REQUEST_BURST.saturating_mul(servers), interval_ns)
}

/// The number of voices that have a source which `counts`.
fn voices(sources: &[PolledSource], counts: impl Fn(&PolledSource) -> bool) -> usize {
    let counted = sources.iter().enumerate().filter(|(_, source)| counts(source));
    let voices = || counted.clone().map(|(at, source)| source.kind.voice(at));
    let of_host = voices().any(|voice| voice == Voice::Host);
    voices().filter(|voice| *voice != Voice::Host).count() + usize::from(of_host)
}

/// Offsets measured before this do not count any more.
pub(super) fn oldest_ns(now_ns: u64, policy: &Policy) -> u64 {
    let valid_ns = policy.poll_ns.saturating_mul(2).saturating_add(5 * SECOND_NS);
    now_ns.saturating_sub(valid_ns)
}

impl KnownSources {
    pub(super) fn new(policy: &Policy, kinds: &[SourceKind]) -> Self {
        let all: Vec<_> = kinds.iter().copied().map(PolledSource::new).collect();
        Self {
            configured: voices(&all, |_| true),
            requests: request_limit(policy, &all),
            all,
            fast_polls_left: 0,
            fast_polls_allowed: true,
            realtime_ns: 0,
        }
    }

    /// Other sources, each with its index before, where it was known.
    pub(super) fn replace(&mut self, policy: &Policy, sources: &[(SourceKind, Option<usize>)]) {
        let mut before: Vec<_> = std::mem::take(&mut self.all).into_iter().map(Some).collect();
        let mut source_of = |&(kind, index): &(SourceKind, Option<usize>)| {
            let known = index.and_then(|index| before.get_mut(index)?.take());
            known.filter(|source| source.kind == kind).unwrap_or_else(|| PolledSource::new(kind))
        };
        self.all = sources.iter().map(&mut source_of).collect();
        self.configured = voices(&self.all, |_| true);
        self.requests = request_limit(policy, &self.all);
    }

    /// Has those polled that are due in the sample that begins.
    pub(super) fn poll_due(&mut self, now_ns: u64, policy: &Policy) {
        // Servers together, as it takes several in one sample to agree: one whose reply
        // was lost once would be alone for ever.
        let mut servers = self.all.iter().filter(|source| source.kind.is_server());
        let is_any = servers.any(|source| source.due_ns <= now_ns);
        let soon_ns = now_ns.saturating_add(if is_any { policy.poll_ns / 2 } else { 0 });
        let until_ns = |kind: SourceKind| if kind.is_server() { soon_ns } else { now_ns };
        for source in self.all.iter_mut().filter(|source| source.due_ns <= until_ns(source.kind)) {
            source.want();
        }
    }

    /// After how long servers are polled again.
    pub(super) fn poll_ns(&self, policy: &Policy) -> u64 {
        policy.poll_ns / if self.fast_polls_left == 0 { 1 } else { FAST_PART }
    }

    /// The next polls come fast, if they may; whether they do.
    pub(super) fn poll_fast(&mut self, now_ns: u64, policy: &Policy) -> bool {
        if !std::mem::take(&mut self.fast_polls_allowed) {
            return false;
        }
        self.fast_polls_left = FAST_POLLS;
        let due_ns = now_ns.saturating_add(self.poll_ns(policy));
        for source in self.all.iter_mut().filter(|source| source.kind.is_server()) {
            source.due_ns = source.due_ns.min(due_ns);
        }
        true
    }

    /// Polls all by `due_ns` at the latest.
    pub(super) fn poll_by(&mut self, due_ns: u64) {
        self.all.iter_mut().for_each(|source| source.due_ns = source.due_ns.min(due_ns));
    }

    /// Polls all servers by `due_ns` for who asks, if that leaves enough requests for a disruption.
    /// One that does not reply is left alone while others do.
    pub(super) fn poll_for_asker(&mut self, due_ns: u64, now_ns: u64) {
        let mut servers: Vec<_> =
            self.all.iter_mut().filter(|source| source.kind.is_server()).collect();
        let needed = (servers.len() as u32).saturating_mul(SPARED_REQUESTS + 1);
        if self.requests.tokens(now_ns) < needed {
            return;
        }
        let is_any = servers.iter().any(|source| !source.is_given_up());
        for source in servers.iter_mut().filter(|source| !is_any || !source.is_given_up()) {
            source.due_ns = source.due_ns.min(due_ns);
        }
    }

    /// A local source to be polled now.
    pub(super) fn next_local(&mut self) -> Option<usize> {
        let is_due = |source: &PolledSource| source.is_wanted && source.kind.is_local();
        let index = self.all.iter().position(is_due)?;
        self.all[index].poll();
        Some(index)
    }

    /// When the next server is to be polled; `None` without any.
    pub(super) fn next_poll_ns(&self) -> Option<u64> {
        let servers = self.all.iter().filter(|source| source.kind.is_server());
        servers.map(|source| source.due_ns).min()
    }

    /// The servers to be polled now, if the rate limit allows all of them: what
    /// takes several that agree takes them in one sample.
    pub(super) fn next_servers(&mut self, now_ns: u64) -> Vec<usize> {
        if !self.all.iter().any(|source| source.is_wanted) {
            return Vec::new();
        }
        let all = self.all.iter().enumerate();
        let wanted: Vec<usize> =
            all.filter(|(_, source)| source.is_wanted).map(|(index, _)| index).collect();
        let allowed = self.requests.take_all(wanted.len() as u32, now_ns);
        self.fast_polls_left = self.fast_polls_left.saturating_sub(1);
        for index in &wanted {
            self.all[*index].poll();
        }
        let Err(wait_ns) = allowed else { return wanted };
        // Together, or they would take turns, and never agree.
        let due_ns = now_ns.saturating_add(wait_ns);
        let servers = self.all.iter_mut().enumerate();
        for (index, source) in servers.filter(|(_, source)| source.kind.is_server()) {
            let was_due_ns = if wanted.contains(&index) { u64::MAX } else { source.due_ns };
            source.due_ns = was_due_ns.min(due_ns);
        }
        Vec::new()
    }

    /// Takes the reply of source `index`, with the clock in this phase; whether it shows that
    /// the clock was moved.
    pub(super) fn take_reply(
        &mut self,
        index: usize,
        reply: Option<OffsetBound>,
        phase: KeeperPhase,
        now_ns: u64,
        policy: &Policy,
    ) -> bool {
        let poll_ns = self.poll_ns(policy);
        let is_only_rtc = self.all.iter().all(|source| source.kind == SourceKind::Rtc);
        let is_right = is_only_rtc || matches!(phase, KeeperPhase::Settled);
        let source = &mut self.all[index];
        let Some(mut offset) = reply else {
            source.back_off(now_ns, poll_ns);
            return false;
        };
        if source.kind == SourceKind::Rtc {
            let Some(moved) = source.rtc_move(offset, is_right) else {
                source.note_agreement(now_ns, poll_ns);
                return false;
            };
            offset = moved;
        }
        // The RTC has an offset only where it moved, which counts unless a disruption is
        // known already.
        let first_rtc_move = source.kind == SourceKind::Rtc
            && source.offset.is_none()
            && matches!(
                phase,
                KeeperPhase::Settled | KeeperPhase::Disturbed(CorrectionCause::Start)
            );
        let oldest_ns = oldest_ns(now_ns, policy);
        let last = source.offset.filter(|last| last.at_monotonic_ns >= oldest_ns);
        let waited_ns =
            source.offset.map(|last| offset.at_monotonic_ns.saturating_sub(last.at_monotonic_ns));
        let has_moved = source.take_offset(offset, now_ns, poll_ns)
            || first_rtc_move
            || last.is_none() && self.contradicts_earlier(index, &offset, oldest_ns);
        // A server in calm: a poll later it shows the clock where it was, and right.
        self.fast_polls_allowed |= !has_moved
            && self.fast_polls_left == 0
            && self.all[index].kind.is_server()
            && waited_ns.is_some_and(|waited_ns| waited_ns >= poll_ns / 2)
            && offset.is_within(policy.tolerance_ns);
        has_moved
    }

    /// Forgets what was measured before, but for the offset of `moved`, and of
    /// servers that were polled together with it: the limit of requests may not let
    /// them be asked again, and without them there is no majority.
    pub(super) fn forget_all_but(&mut self, moved: Option<usize>, now_ns: u64) {
        let moved_source = moved.map(|index| &self.all[index]);
        let polls =
            moved_source.filter(|source| source.kind.is_server()).map(|source| source.polls);
        for (index, source) in self.all.iter_mut().enumerate() {
            let is_with = source.kind.is_server() && source.is_fresh && Some(source.polls) == polls;
            if Some(index) != moved && !is_with {
                source.forget(now_ns);
                source.want();
            }
        }
    }

    /// The RTC has to be learnt again.
    pub(super) fn unlearn(&mut self) {
        self.all.iter_mut().for_each(PolledSource::unlearn);
    }

    /// An RTC that shows an absence of which enough others know nothing was set.
    pub(super) fn unlearn_contradicted(&mut self, selected: &Selected) {
        let is_shown = selected.kind != SourceKind::Rtc
            && selected.agreeing.0.min(selected.fresh) >= self.needed().0;
        for source in self.all.iter_mut().filter(|_| is_shown) {
            if source.offset.is_some_and(|rtc| !selected.offset.agrees_with(&rtc)) {
                source.unlearn();
            }
        }
    }

    /// What was selected at `now_ns`.
    pub(super) fn choose(&self, now_ns: u64, policy: &Policy) -> Choice {
        let candidates: Vec<Candidate> = self.candidates(now_ns, policy).collect();
        choose(&candidates, self.needed().0, now_ns)
    }

    /// What was measured, and of which scale it counts.
    pub(super) fn candidates(
        &self,
        now_ns: u64,
        policy: &Policy,
    ) -> impl Iterator<Item = Candidate> + Clone {
        let other = self.other_scale();
        let counts = move |candidate: &Candidate| {
            other != Some(self.all[candidate.source].scale) || !self.is_near_leap(candidate, now_ns)
        };
        self.measured_candidates(now_ns, policy).filter(counts)
    }

    /// What was measured.
    pub(super) fn measured_candidates(
        &self,
        now_ns: u64,
        policy: &Policy,
    ) -> impl Iterator<Item = Candidate> + Clone {
        let oldest_ns = oldest_ns(now_ns, policy);
        let candidate = move |(index, source): (usize, &PolledSource)| {
            let offset = source.valid_offset(oldest_ns, now_ns)?;
            let (kind, is_fresh) = (source.kind, source.is_fresh);
            Some(Candidate { source: index, kind, offset, is_fresh })
        };
        self.all.iter().enumerate().filter_map(candidate)
    }

    /// Whether a source's first sample shows something that the others have
    /// not seen yet: each was polled before it, and is of a worse kind.
    pub(super) fn contradicts_earlier(
        &self,
        index: usize,
        offset: &OffsetBound,
        oldest_ns: u64,
    ) -> bool {
        let kind = self.all[index].kind;
        let others = || {
            let others = self.all.iter().enumerate().filter(|(other, _)| *other != index);
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

    /// How many independent sources have to agree so that one of them at least
    /// is right, if fewer than half of all that are configured are wrong; and
    /// how many are configured.
    pub(super) fn needed(&self) -> (usize, usize) {
        (self.configured.saturating_sub(1) / 2 + 1, self.configured)
    }

    /// The scale that does not count where it may differ from the other.
    fn other_scale(&self) -> Option<AnnouncedScale> {
        if !self.all.iter().any(|source| source.scale == AnnouncedScale::Smeared) {
            return None;
        }
        let voices_of = |scale| voices(&self.all, |source| source.scale == scale);
        let (smeared, utc) = (voices_of(AnnouncedScale::Smeared), voices_of(AnnouncedScale::Utc));
        let other = if smeared > utc { AnnouncedScale::Utc } else { AnnouncedScale::Smeared };
        (utc > 0).then_some(other)
    }

    /// Whether scales may differ at the time that this one shows: a liar leaves out none
    /// but itself.
    fn is_near_leap(&self, candidate: &Candidate, now_ns: u64) -> bool {
        let unix_ns = self.realtime_ns + i128::from(now_ns);
        let noon_ns = i128::from(DAY_NS / 2);
        let days =
            (unix_ns + i128::from(candidate.offset.offset_ns) - noon_ns).div_euclid(DAY_NS.into());
        calendar::date(days).is_leap_day()
    }

    /// Whether two samples show it, or one of a source that needs one.
    pub(super) fn is_confirmed(&self, selected: &Selected) -> bool {
        selected.kind.needs_no_second()
            || selected.fresh >= 2
            || self.all[selected.source].in_a_row >= 2
    }

    /// Whether any that was not measured in this sample can still be.
    pub(super) fn is_any_stale(&self) -> bool {
        self.all.iter().any(|source| !source.is_fresh && source.can_be_polled())
    }

    /// Polls in this sample what was not measured in it.
    pub(super) fn poll_stale(&mut self) {
        self.all.iter_mut().filter(|source| !source.is_fresh).for_each(PolledSource::want);
    }
}
