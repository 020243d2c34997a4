//! The loop: look, ask what to do, do it, wait.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use disruptions::{Kind, Observer};
use keeper::{Action, Cause, Correction, Keeper, Policy, Reading, SystemClock};
use platform::clock::Clock;
use platform::service_manager;

use super::apart::Apart;
use super::beside::Beside;
use super::chrony::{ChronyHand, LONGEST_ASKING};
use super::clock::KeptClock;
use super::line::{Basis, Corrected, Event, How, NotUsed, Started, Summary};
use super::log::Log;
use super::options::Args;
use super::sources::{Change, Source};
use crate::error::{CliError, cannot_wait};
use linux::wait::{Token, Wait, Wake};
use platform::sampler::Sampler;

/// What chronyd is fed through, in the log.
const FEED: &str = "chronyd's reference clock";

/// Everything that keeping takes.
pub(super) struct Daemon {
    policy: Policy,
    interval: Duration,
    duration: Option<Duration>,
    sampler: Sampler,
    observer: Observer,
    keeper: Keeper,
    sources: Vec<Source>,
    clock: KeptClock,
    beside: Beside,
    chrony: ChronyHand,
    log: Log,
    tally: Summary,
    begun: Instant,
    /// How often the service manager wants to hear of us, and when it did.
    watchdog: Option<(Duration, Instant)>,
}

impl Daemon {
    /// # Errors
    /// There is no socket for chronyd.
    pub(super) fn new(args: &Args, sources: Vec<Source>, beside: Beside) -> Result<Self, CliError> {
        let kinds: Vec<_> = sources.iter().map(|source| source.kind).collect();
        let policy = args.policy();
        let chrony = ChronyHand::new(args).map_err(|error| CliError::Failed {
            cause: format!("no socket to feed chronyd through: {error}"),
            remedy: "a higher limit of open files (`ulimit -n`)".into(),
        })?;
        let now = Instant::now();
        Ok(Self {
            keeper: Keeper::new(policy.clone(), &kinds),
            policy,
            interval: args.interval,
            duration: args.duration,
            sampler: Sampler::new(&args.places.paths()),
            observer: Observer::new(args.interval),
            sources,
            clock: if args.dry_run { KeptClock::pretended() } else { KeptClock::kernel() },
            beside,
            chrony,
            log: Log::new(args.format),
            tally: Summary::default(),
            begun: now,
            // Half, so that one that comes late is no death.
            watchdog: service_manager::watchdog().map(|each| (each / 2, now)),
        })
    }

    /// Tells what is kept, and how.
    pub(super) fn start(&mut self, not_used: Vec<NotUsed>) -> Result<(), CliError> {
        self.log.begin(Event::Started(Box::new(Started {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dry_run: self.clock.is_pretended(),
            interval_s: self.interval.as_secs_f64(),
            policy: self.policy.clone(),
            sources: self.sources.iter().map(|source| source.name.clone()).collect(),
            not_used,
            beside: self.beside.noted.clone(),
        })))
    }

    /// Keeps the clock until a signal or the time says to end.
    pub(super) fn run(&mut self, mut wait: Wait) -> Result<ExitCode, CliError> {
        self.sampler.clock_set().map(|fd| wait.add(fd)).transpose().map_err(cannot_wait)?;
        let host = self.sources.iter().find_map(Source::host).map(|host| wait.add(host));
        let host = host.transpose().map_err(cannot_wait)?;
        let end = self.duration.and_then(|duration| self.begun.checked_add(duration));
        let mut next = self.begun;
        loop {
            self.look();
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            // Looks that are overdue are left out, not made up for.
            next = (next + self.observer.next_sample_in()).max(Instant::now());
            if !self.wait(&wait, host, end.map_or(next, |end| next.min(end)))? {
                break;
            }
        }
        self.tally.kept_s = self.begun.elapsed().as_secs_f64();
        self.log.tell(Event::Summary(self.tally.clone()));
        match (end, self.tally.answered) {
            (Some(_), 0) => Err(CliError::Failed {
                cause: "no source answered".into(),
                remedy: "another source (--ntp HOST), or more patience (--patience, --duration)"
                    .into(),
            }),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    /// Waits for the next look, and hears what the host says meanwhile;
    /// whether to go on.
    fn wait(
        &mut self,
        wait: &Wait,
        host: Option<Token>,
        deadline: Instant,
    ) -> Result<bool, CliError> {
        loop {
            match wait.until(deadline) {
                Ok(Wake::Readable(token)) if Some(token) == host => self.hear(),
                // The other one: somebody set the clock.
                Ok(Wake::Deadline | Wake::Readable(_)) => return Ok(true),
                Ok(Wake::Signal | Wake::ReaderGone) => return Ok(false),
                Err(error) => {
                    return Err(CliError::Failed {
                        cause: format!("cannot wait for the next look: {error}"),
                        remedy: "to start it again".into(),
                    });
                }
            }
        }
    }

    fn look(&mut self) {
        self.tally.looks += 1;
        let look = self.sampler.sample(self.observer.is_gathering());
        let mut seen = self.observer.observe(look).disruptions;
        seen.retain(|disruption| !self.keeper.is_own_step(disruption));
        self.keeper.look(now_ns(), &seen);
        // What leaves the clock as it is would fill the log of a busy host.
        seen.retain(|disruption| !matches!(disruption.kind, Kind::LongSteal | Kind::Steered));
        for disruption in seen {
            self.tally.disruptions += 1;
            self.log.tell(Event::Disruption(disruption));
        }
        self.act();
        // Though nothing waits: what comes next is then known to be from after
        // a step of this look.
        self.hear();
        if let Some((each, told)) = &mut self.watchdog
            && told.elapsed() >= *each
        {
            *told = Instant::now();
            // A manager that has gone is no reason to stop keeping time.
            let _ = service_manager::alive();
        }
    }

    /// Something came in on the host's socket.
    fn hear(&mut self) {
        let Some(index) = self.sources.iter().position(|source| source.host().is_some()) else {
            return;
        };
        let measured = Source::measure_all(&mut self.sources, &[index]).pop();
        let reading = measured.and_then(|(_, reading, _)| reading);
        let Some(host) = self.sources[index].host_mut() else { return };
        let (resumed, refused) = (host.take_resumed(), host.take_refused());
        if let Some(why) = refused {
            self.log.tell(Event::NotHeard { why: why.to_string() });
        }
        if resumed {
            self.log.tell(Event::Resumed);
            self.keeper.suspect(now_ns(), Cause::Told);
        }
        if let Some(reading) = reading {
            self.tally.answered += 1;
            self.measured(index, Some(reading));
        }
        self.act();
    }

    /// Does what the keeper wants, until it has nothing more.
    fn act(&mut self) {
        while let Some(action) = self.keeper.next(now_ns()) {
            match action {
                Action::Measure(sources) => self.measure(&sources),
                Action::Step(by) => self.correct(&by, How::Step),
                Action::Slew(by) => self.correct(&by, How::Slew),
                Action::AskChronyd { by, anew } => {
                    if anew {
                        self.chrony.measure_anew();
                    }
                    self.correct(&by, How::AskedChronyd);
                }
                Action::FeedChronyd(reading) => self.feed(&reading),
                Action::Refuse(by, why) => {
                    self.tally.refused += 1;
                    let basis = self.basis(&by);
                    self.log.tell(Event::Refused { basis, why });
                }
                Action::Settled(left) => {
                    let basis = self.basis(&left);
                    self.log.tell(Event::InOrder(basis));
                }
            }
        }
    }

    fn measure(&mut self, which: &[usize]) {
        let begun = Instant::now();
        let measured = Source::measure_all(&mut self.sources, which);
        // The next look comes later by that, and for no other reason. What is
        // beyond patience is: the machine may stand still meanwhile.
        let patience = which.iter().filter_map(|index| Some(self.sources.get(*index)?.patience));
        self.observer.was_busy(begun.elapsed().min(patience.max().unwrap_or_default()));
        for (index, reading, change) in measured {
            self.tally.asked += 1;
            self.tally.answered += u64::from(reading.is_some());
            if let Some(change) = change {
                let source = self.sources[index].name.clone();
                self.log.tell(match change {
                    Change::Silent(why) => Event::Silent { source, why },
                    Change::Back => Event::Answers { source },
                });
            }
            self.measured(index, reading);
        }
    }

    /// Tells the keeper what a source says of the clock as it would be.
    fn measured(&mut self, index: usize, reading: Option<Reading>) {
        let ahead_ns = self.clock.ahead_ns();
        let reading = reading.map(|reading| Reading {
            offset_ns: reading.offset_ns.saturating_sub(ahead_ns),
            ..reading
        });
        self.keeper.measured(index, now_ns(), reading);
    }

    fn correct(&mut self, by: &Correction, how: How) {
        if let Some(keeper) = self.beside.newcomer() {
            self.keeper.corrected(now_ns(), false);
            return self.log.tell(Event::StandsAside { keeper });
        }
        if how != How::AskedChronyd && self.was_set_since(by) {
            self.keeper.was_set(now_ns());
            return self.log.tell(Event::SetMeanwhile { how, by_ns: by.by_ns });
        }
        let read = |clock: &KeptClock| clock.now().ok().map(|now| now.0);
        let before_unix_ns = read(&self.clock);
        let done = self.carry_out(by, how);
        let after_unix_ns = read(&self.clock);
        self.keeper.corrected(now_ns(), done.is_ok());
        if let Err(why) = done {
            self.tally.failed += 1;
            return self.log.tell(Event::Failed { how, by_ns: by.by_ns, why });
        }
        match how {
            How::Step => {
                self.tally.steps += 1;
                let size_ns = by.by_ns.unsigned_abs();
                self.tally.largest_step_ns = self.tally.largest_step_ns.max(size_ns);
            }
            How::Slew => self.tally.slews += 1,
            How::AskedChronyd => self.tally.asked_chronyd += 1,
        }
        self.log.tell(Event::Corrected(Corrected {
            how,
            dry_run: self.clock.is_pretended(),
            before_unix_ns,
            after_unix_ns,
            basis: self.basis(by),
        }));
    }

    /// Whether somebody set the clock after it was compared with the source
    /// that says by how much it is off: a correction would come on top of
    /// theirs.
    fn was_set_since(&self, by: &Correction) -> bool {
        let Some(source) = self.sources.get(by.source) else { return false };
        match (source.apart, Apart::now()) {
            (Some(then), Some(now)) => then.differs_from(now),
            _ => false,
        }
    }

    fn carry_out(&mut self, by: &Correction, how: How) -> Result<(), String> {
        match how {
            How::AskedChronyd if !self.clock.is_pretended() => {
                let begun = Instant::now();
                let told = self.chrony.step();
                self.observer.was_busy(begun.elapsed().min(LONGEST_ASKING));
                told.map_err(|why| why.to_string())
            }
            How::Slew => self.clock.slew(by.by_ns).map_err(|why| why.to_string()),
            _ => {
                self.clock.step(by.by_ns).map_err(|why| why.to_string())?;
                if !self.clock.is_pretended() {
                    // The keeper reckons with it too.
                    self.sources.iter_mut().for_each(|source| source.stepped(by.by_ns));
                }
                Ok(())
            }
        }
    }

    fn feed(&mut self, reading: &Reading) {
        if self.clock.is_pretended() {
            self.tally.fed_chronyd += 1;
            return;
        }
        let (is_taken, change) = self.chrony.feed(reading);
        self.tally.fed_chronyd += u64::from(is_taken);
        match change {
            None => {}
            Some(Ok(())) => self.log.tell(Event::Answers { source: FEED.into() }),
            Some(Err(why)) => {
                let why = why.to_string();
                self.log.tell(Event::Silent { source: FEED.into(), why });
            }
        }
    }

    fn basis(&self, correction: &Correction) -> Basis {
        let source = self.sources.get(correction.source);
        Basis::new(correction, source.map_or("?", |source| &source.name))
    }
}

/// CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    Clock::Monotonic.read_ns().unwrap_or_default()
}
