//! `parachron keep` in a guest: the shipped observer and keeper, driven as the
//! daemon drives them.
//!
//! The daemon samples twice a second. Here the observer looks only around what
//! happens, as between it sees nothing, and the keeper is asked when it polls.

use std::time::Duration;

use disruptions::Observer;
use keeper::{
    Action, Announced, AnnouncedScale, ClockError, Corrector, Keeper, Policy, SourceKind,
};

use pvclock::units::LeapSecond;

use crate::checks::Promise;
use crate::network::SimulatedReply;
use crate::scenario::{MOST_SERVERS, Scenario};
use crate::world::SimulatedWorld;

/// The interval of samples, `parachron keep`'s default.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// A sample comes no sooner than after this, ns.
const LEAST_WAIT_NS: u64 = INTERVAL.as_nanos() as u64;

/// The host's page, and servers.
const SOURCES: usize = 1 + MOST_SERVERS;

/// The keeper in a guest.
pub(crate) struct SimulatedKeeper {
    keeper: Keeper,
    observer: Observer,
    policy: Policy,
    servers: usize,
    /// The host's page comes before the servers: 1, or 0 without one.
    pages: usize,
    /// CLOCK_MONOTONIC at the observer's last sample, ns.
    observed_ns: Option<u64>,
    /// Samples since were left out.
    skipped: bool,
    /// It made a step.
    pub(crate) has_stepped: bool,
}

impl SimulatedKeeper {
    pub(crate) fn new(world: &SimulatedWorld, scenario: &Scenario) -> Self {
        let poll_ns = scenario.poll_s * 1_000_000_000;
        let policy = Policy { poll_ns, corrector: Corrector::Kernel, ..Policy::default() };
        let servers = world.network.len();
        let page = world.machine.told.as_ref().map(|_| SourceKind::VmClock);
        let kinds: Vec<_> = page.into_iter().chain((0..servers).map(|_| SourceKind::Ntp)).collect();
        let mut keeper = Keeper::new(policy.clone(), &kinds);
        keeper.start_at(0.0, None);
        Self {
            keeper,
            observer: Observer::new(INTERVAL),
            policy,
            servers,
            pages: kinds.len() - servers,
            observed_ns: None,
            skipped: false,
            has_stepped: false,
        }
    }

    /// Whether the next sample is due sooner, as evidence is gathered.
    pub(crate) fn is_gathering(&self) -> bool {
        self.observer.is_gathering()
    }

    /// A poll in which nothing is known to have happened.
    pub(crate) fn poll(&mut self, world: &mut SimulatedWorld) {
        world.counts.polls += 1;
        self.round(world, false);
    }

    /// How long until the keeper polls its servers, by its clock, ns.
    pub(crate) fn waits_ns(&self, world: &SimulatedWorld) -> i64 {
        let due_ns = self.keeper.next_poll_ns().unwrap_or(u64::MAX);
        let wait_ns = due_ns.saturating_sub(world.monotonic_ns()).min(self.policy.poll_ns);
        // By a clock that may be slow: at once would be too early.
        (wait_ns + wait_ns / 10_000).max(LEAST_WAIT_NS).cast_signed()
    }

    /// The samples before were left out, as they would have shown nothing.
    pub(crate) fn attend(&mut self) {
        self.skipped = true;
    }

    /// A sample, with the observer if it `looks`, and all that follows from it.
    pub(crate) fn round(&mut self, world: &mut SimulatedWorld, looks: bool) {
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
        } else {
            self.skipped = true;
        }
        self.keeper.sample(now_ns, &disruptions);
        let mut got = [None; SOURCES];
        self.act(world, now_ns, &mut got);
    }

    /// Carries out what the keeper wants.
    fn act(
        &mut self,
        world: &mut SimulatedWorld,
        now_ns: u64,
        got: &mut [Option<SimulatedReply>; SOURCES],
    ) {
        while let Some(action) = self.keeper.next(now_ns) {
            match action {
                Action::Measure(sources) => {
                    for source in sources {
                        let offset = self.measure(world, source, got);
                        let [unix_ns, _] = world.kernel.shown_ns();
                        let told = self.announced(world, source, offset.is_some());
                        self.keeper.announced(source, told, now_ns, unix_ns.unsigned_abs());
                        self.keeper.measured(source, now_ns, offset.map(|it| it.offset_at(now_ns)));
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
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::Discipline(by) => {
                    let set =
                        by.frequency_ppb.map_or(Ok(()), |ppb| world.kernel.set_frequency(ppb));
                    self.check_correction(world, by.slew_ns.unwrap_or(0), got);
                    let is_made = by.slew_ns.is_none_or(|by_ns| world.slew(by_ns)) && set.is_ok();
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::SetError(error) => {
                    self.check_error(world, error);
                    let _ = world.kernel.set_error(error);
                }
                Action::SetLeap(leap) => {
                    let is_made = world.kernel.set_leap(leap).is_ok();
                    self.keeper.corrected(now_ns, is_made);
                }
                Action::SetFigures { max_ns, estimated_ns } => {
                    let _ = world.kernel.set_figures(max_ns, estimated_ns);
                }
                Action::Refuse(..) => world.counts.refusals += 1,
                Action::WrongRate { .. } => world.counts.wrong_rates += 1,
                Action::Synchronised(_) => {}
                Action::Restart | Action::Makestep { .. } | Action::FeedChronyd(_) => {
                    self.keeper.corrected(now_ns, false);
                }
            }
        }
    }

    fn measure(
        &mut self,
        world: &mut SimulatedWorld,
        source: usize,
        got: &mut [Option<SimulatedReply>; SOURCES],
    ) -> Option<SimulatedReply> {
        let reply = match source.checked_sub(self.pages) {
            Some(server) => world.ask(server),
            None => world.ask_vmclock(),
        };
        got[source] = reply;
        reply
    }

    /// What a source says of leap seconds. A page never smears them (its protocol).
    fn announced(&self, world: &SimulatedWorld, source: usize, replied: bool) -> Announced {
        let Some(server) = source.checked_sub(self.pages) else {
            return Announced { leap: None, scale: AnnouncedScale::Utc };
        };
        let is_announced = replied && world.announces_leap(server);
        let smears = world.network.smears(server);
        Announced {
            leap: is_announced.then_some(LeapSecond::Inserted),
            scale: if smears { AnnouncedScale::Smeared } else { AnnouncedScale::Utc },
        }
    }

    /// Whether those that lie are too few to be believed.
    fn is_honest(&self, world: &SimulatedWorld) -> bool {
        let voices = self.servers + self.pages;
        2 * world.network.liars(world.now_ns) < voices
    }

    fn check_error(&self, world: &mut SimulatedWorld, error: ClockError) {
        if self.is_honest(world) {
            let error_ns = world.error_ns();
            let max_ns = i64::try_from(error.max_ns).unwrap_or(i64::MAX);
            let allowed_ns = max_ns.saturating_add(world.network.lenience_ns(world.now_ns));
            let (promise, at_ns) = (Promise::StatedBound, world.now_ns);
            world.checks.at_most(promise, at_ns, error_ns.saturating_abs(), allowed_ns);
        }
    }

    fn check_correction(
        &self,
        world: &mut SimulatedWorld,
        by_ns: i64,
        got: &[Option<SimulatedReply>; SOURCES],
    ) {
        if !self.is_honest(world) {
            return;
        }
        let bounds = got.iter().flatten().map(|reply| reply.bound_ns);
        let bound_ns = bounds.max().unwrap_or(0).cast_signed();
        let allowed_ns = 2 * bound_ns + self.policy.tolerance_ns.cast_signed();
        let before_ns = world.error_ns();
        let after_ns = before_ns.saturating_add(by_ns).saturating_abs();
        let allowed_ns = allowed_ns.max(before_ns.saturating_abs());
        world.checks.at_most(Promise::NeverWorse, world.now_ns, after_ns, allowed_ns);
    }
}
