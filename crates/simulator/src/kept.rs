//! `parachron keep` in a guest: the shipped observer and keeper, driven as the
//! daemon drives them.
//!
//! The daemon samples twice a second. Here the observer looks only around what
//! happens, as between it sees nothing; and while the clock is right, a poll whose
//! replies all agree within the tolerance is only noted: it leaves the keeper as
//! the one before did. The last two are given to it before anything else. A test
//! compares runs in which the keeper is asked about every poll.

use std::collections::BTreeMap;
use std::time::Duration;

use disruptions::{Kind, Observer};
use keeper::{Action, ClockError, Corrector, Keeper, Policy, SourceKind, SystemClock};

use crate::checks::Promise;
use crate::network::{MOST, Reply};
use crate::scrape;
use crate::world::World;

/// The interval of samples, `parachron keep`'s default.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// Rounds in a row without a correction before a poll may be only noted.
const CALM: u32 = 2;

/// By what a clock may wander in the keeper's eyes: 1000 ppm.
const WANDER: u64 = 1000;

/// A poll whose replies were all usable.
#[derive(Debug, Clone, Copy)]
struct Noted {
    at_ns: u64,
    replies: [Reply; MOST],
    /// The error then, ns: for the checks.
    error_ns: i64,
}

/// The keeper in a guest.
pub(crate) struct Kept {
    keeper: Keeper,
    observer: Observer,
    policy: Policy,
    servers: usize,
    has_host: bool,
    /// CLOCK_MONOTONIC at the observer's last sample, ns.
    observed_ns: Option<u64>,
    /// Samples since were left out.
    skipped: bool,
    /// Rounds in a row in which there was nothing to do.
    calm: u32,
    /// When a slew ends, CLOCK_MONOTONIC, ns.
    slewing_until_ns: u64,
    /// The last poll, and the one before, if all replies were usable.
    last: Option<Noted>,
    before: Option<Noted>,
    /// How many of these the keeper does not know of.
    held: u8,
    /// When the keeper asks each server next.
    due_ns: [u64; MOST],
    /// Replies that were drawn before the keeper asked.
    drawn: [Option<Option<Reply>>; MOST],
    /// Every poll is a round.
    pub(crate) walks: bool,
    /// Another daemon is to measure anew.
    pub(crate) wants_restart: bool,
    /// It made a step.
    pub(crate) has_stepped: bool,
    /// What it has reported, by kind: how often, and when last, CLOCK_MONOTONIC, ns.
    reported: BTreeMap<String, (u64, u64)>,
}

impl Kept {
    pub(crate) fn new(
        world: &World,
        poll_ns: u64,
        beside: bool,
        has_host: bool,
        walks: bool,
    ) -> Self {
        let corrector = if beside { Corrector::Beside } else { Corrector::Kernel };
        // A poll comes a little later than it is due, by a clock that may be slow.
        let poll_ns = poll_ns - poll_ns / 20;
        let policy = Policy { poll_ns, corrector, ..Policy::default() };
        let servers = world.network.len();
        let host = has_host.then_some(SourceKind::Phc);
        let kinds: Vec<SourceKind> =
            host.into_iter().chain((0..servers).map(|_| SourceKind::Ntp)).collect();
        let mut keeper = Keeper::new(policy.clone(), &kinds);
        keeper.start_at(0.0, None);
        Self {
            keeper,
            observer: Observer::new(INTERVAL),
            policy,
            servers,
            has_host,
            observed_ns: None,
            skipped: false,
            calm: 0,
            slewing_until_ns: 0,
            last: None,
            before: None,
            held: 0,
            due_ns: [0; MOST],
            drawn: [None; MOST],
            walks,
            wants_restart: false,
            has_stepped: false,
            reported: BTreeMap::new(),
        }
    }

    /// What the daemon would show now.
    pub(crate) fn shown(&self, world: &World) -> scrape::Kept {
        let now_ns = world.monotonic_ns();
        let view = self.keeper.view(now_ns);
        scrape::Kept { view, now_ns, disruptions: self.reported.clone() }
    }

    /// Whether the next sample is due sooner, as evidence is gathered.
    pub(crate) fn is_gathering(&self) -> bool {
        self.observer.is_gathering()
    }

    /// A poll in which nothing is known to have happened.
    pub(crate) fn poll(&mut self, world: &mut World) {
        world.counts.polls += 1;
        let now_ns = world.monotonic_ns();
        if !self.is_calm(now_ns) {
            return self.round(world, false);
        }
        let error_ns = world.error_ns();
        for server in 0..self.servers {
            self.drawn[server] =
                Some(world.network.ask(server, world.now_ns, error_ns, &world.truth));
        }
        if let Some(noted) = self.agreed(now_ns, error_ns) {
            self.drawn = [None; MOST];
            self.due_ns = [now_ns + self.policy.poll_ns; MOST];
            self.before = self.last.replace(noted);
            self.held = 2.min(self.held + 1);
            return;
        }
        self.round(world, false);
    }

    fn is_calm(&self, now_ns: u64) -> bool {
        !self.walks
            && self.calm >= CALM
            && !self.has_host
            && self.servers > 0
            && self.last.is_some()
            && now_ns > self.slewing_until_ns
            && self.due_ns.iter().take(self.servers).all(|due_ns| *due_ns <= now_ns)
    }

    /// The replies that were drawn, if the keeper would do nothing about them.
    fn agreed(&self, now_ns: u64, error_ns: i64) -> Option<Noted> {
        let before = self.last.as_ref()?;
        let elapsed_ns = now_ns.saturating_sub(before.at_ns);
        let mut replies = [Reply::default(); MOST];
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for (index, reply) in before.replies.iter().take(self.servers).enumerate() {
            let now = self.drawn[index]??;
            let bound_ns = now.bound_ns.cast_signed();
            (low, high) = (low.max(now.offset_ns - bound_ns), high.min(now.offset_ns + bound_ns));
            let moved_ns = now.offset_ns.abs_diff(reply.offset_ns);
            let may_move_ns = now.bound_ns + reply.bound_ns + elapsed_ns / WANDER;
            if moved_ns > may_move_ns {
                return None;
            }
            replies[index] = now;
        }
        let (size_ns, bound_ns) = (low.midpoint(high).unsigned_abs(), (high - low) / 2);
        let is_right =
            size_ns <= self.policy.tolerance_ns || size_ns / 2 < bound_ns.max(0).cast_unsigned();
        (low <= high && is_right).then_some(Noted { at_ns: now_ns, replies, error_ns })
    }

    /// Gives the keeper the last polls that were only noted.
    fn catch_up(&mut self, world: &mut World) {
        let held = [self.before.filter(|_| self.held == 2), self.last.filter(|_| self.held > 0)];
        self.held = 0;
        for noted in held.into_iter().flatten() {
            self.keeper.sample(noted.at_ns, &[]);
            while let Some(action) = self.keeper.next(noted.at_ns) {
                match action {
                    Action::Measure(sources) => {
                        for source in sources {
                            let reply = noted.replies.get(source).copied();
                            let offset = reply.map(|reply| reply.at(noted.at_ns));
                            self.keeper.measured(source, noted.at_ns, offset);
                        }
                    }
                    Action::SetError(error) => {
                        self.check_error(world, error, noted.error_ns);
                        // What the kernel has added to it since.
                        let grown_ns = world.monotonic_ns().saturating_sub(noted.at_ns) / 2000;
                        let max_ns = error.max_ns.saturating_add(grown_ns);
                        let _ = world.kernel.set_error(ClockError { max_ns, ..error });
                    }
                    // Nothing else comes of them: the test in which each poll is a
                    // round would show it.
                    _ => self.keeper.corrected(noted.at_ns, false),
                }
            }
        }
    }

    /// The samples before were left out, as they would have shown nothing.
    pub(crate) fn attend(&mut self) {
        self.skipped = true;
    }

    /// A sample, with the observer if it `looks`, and all that follows from it.
    pub(crate) fn round(&mut self, world: &mut World, looks: bool) {
        self.catch_up(world);
        world.counts.rounds += 1;
        let now_ns = world.monotonic_ns();
        let mut disruptions = Vec::new();
        if looks {
            let since_ns = self.observed_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns));
            if std::mem::take(&mut self.skipped) {
                let planned = self.observer.next_sample_in();
                self.observer.was_busy(Duration::from_nanos(since_ns).saturating_sub(planned));
            }
            self.observed_ns = Some(now_ns);
            disruptions = self.observer.observe(world.sample()).disruptions;
            disruptions.retain(|disruption| !self.keeper.is_own_step(disruption));
            for disruption in &disruptions {
                // As the daemon counts: what leaves the clock as it is, is not reported.
                if !matches!(disruption.kinds.only(), Some(Kind::LongSteal | Kind::Steered)) {
                    let reported = self.reported.entry(disruption.kinds.to_string());
                    let (count, last_ns) = reported.or_default();
                    (*count, *last_ns) = (*count + 1, now_ns);
                }
            }
        } else {
            self.skipped = true;
        }
        self.keeper.sample(now_ns, &disruptions);
        let mut got = [None; MOST];
        let is_calm = self.act(world, now_ns, &mut got) && disruptions.is_empty();
        self.calm = if is_calm { self.calm.saturating_add(1) } else { 0 };
        self.drawn = [None; MOST];
        let replies: Option<Vec<Reply>> = got.into_iter().take(self.servers).collect();
        if let Some(all) = replies {
            let mut replies = [Reply::default(); MOST];
            replies[..all.len()].copy_from_slice(&all);
            self.last = Some(Noted { at_ns: now_ns, replies, error_ns: world.error_ns() });
        } else if got.iter().any(Option::is_some) {
            self.last = None;
        }
    }

    /// Carries out what the keeper wants; whether that leaves the clock alone.
    fn act(&mut self, world: &mut World, now_ns: u64, got: &mut [Option<Reply>; MOST]) -> bool {
        let mut is_calm = true;
        while let Some(action) = self.keeper.next(now_ns) {
            is_calm &= matches!(action, Action::Measure(_) | Action::SetError(_));
            match action {
                Action::Measure(sources) => {
                    for source in sources {
                        let offset = self.measure(world, source, got);
                        self.keeper.measured(source, now_ns, offset.map(|it| it.at(now_ns)));
                    }
                }
                Action::Step(by) => {
                    self.check_correction(world, by.by_ns, got);
                    let is_made = world.step(by.by_ns);
                    self.has_stepped = true;
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::Slew(by) => {
                    self.check_correction(world, by.by_ns, got);
                    let is_made = world.slew(by.by_ns);
                    self.slews_until(now_ns, by.by_ns);
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::Discipline(by) => {
                    let set =
                        by.frequency_ppb.map_or(Ok(()), |ppb| world.kernel.set_frequency(ppb));
                    let is_made = by.slew_ns.is_none_or(|by_ns| world.slew(by_ns)) && set.is_ok();
                    self.slews_until(now_ns, by.slew_ns.unwrap_or(0));
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::SetError(error) => {
                    self.check_error(world, error, world.error_ns());
                    let _ = world.kernel.set_error(error);
                }
                Action::SetEstimatedError(ns) => drop(world.kernel.set_estimated_error(ns)),
                Action::Restart => self.wants_restart = true,
                Action::Refuse(..) => world.counts.refusals += 1,
                Action::Synchronised(_) => {}
                Action::Makestep { .. } | Action::FeedChronyd(_) => {
                    self.keeper.corrected(now_ns, false);
                }
            }
        }
        is_calm
    }

    fn slews_until(&mut self, now_ns: u64, by_ns: i64) {
        // At 500 ppm, from the next second on.
        self.slewing_until_ns = now_ns + by_ns.unsigned_abs() * 2000 + 2_000_000_000;
    }

    fn measure(
        &mut self,
        world: &mut World,
        source: usize,
        got: &mut [Option<Reply>; MOST],
    ) -> Option<Reply> {
        let Some(server) = source.checked_sub(usize::from(self.has_host)) else {
            return Some(world.ask_host());
        };
        let reply = self.drawn[server].take().unwrap_or_else(|| world.ask(server));
        (got[server], self.due_ns[server]) = (reply, world.monotonic_ns() + self.policy.poll_ns);
        reply
    }

    /// Whether those that lie are too few to be believed.
    fn is_honest(&self, world: &World) -> bool {
        let voices = self.servers + usize::from(self.has_host);
        2 * world.network.liars(world.now_ns) < voices
    }

    fn check_error(&self, world: &mut World, error: ClockError, error_ns: i64) {
        if self.is_honest(world) {
            let max_ns = i64::try_from(error.max_ns).unwrap_or(i64::MAX);
            let allowed_ns = max_ns.saturating_add(world.network.lenience_ns(world.now_ns));
            let (promise, at_ns) = (Promise::StatedBound, world.now_ns);
            world.checks.at_most(promise, at_ns, error_ns.saturating_abs(), allowed_ns);
        }
    }

    fn check_correction(&self, world: &mut World, by_ns: i64, got: &[Option<Reply>; MOST]) {
        if !self.is_honest(world) {
            return;
        }
        let bounds = got.iter().flatten().map(|reply| reply.bound_ns);
        let host = if self.has_host { world.machine.host_bound_ns() } else { 0 };
        let bound_ns = bounds.max().unwrap_or(0).max(host).cast_signed();
        let allowed_ns = 2 * bound_ns + self.policy.tolerance_ns.cast_signed();
        let before_ns = world.error_ns();
        let after_ns = before_ns.saturating_add(by_ns).saturating_abs();
        let allowed_ns = allowed_ns.max(before_ns.saturating_abs());
        world.checks.at_most(Promise::NeverWorse, world.now_ns, after_ns, allowed_ns);
    }
}
