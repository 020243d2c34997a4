//! The loop: sample, carry out what the keeper decides, wait.

mod corrections;
mod guard;
mod host_line;
mod start;
mod status_reply;
mod waiting;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use disruptions::{Kind, Observer};

use inspect::sampler::Sampler;
use keeper::event::{CorrectionMethod, KeeperEvent, KeeperSummary, Line, NotUsed};
use keeper::{Action, CorrectionCause, Keeper, KeptBound};
use linux::clock::LinuxClock;
use linux::file_lock::FileLock;
use linux::service_manager;
use linux::wait::WaitUntil;
use pvclock::units::OffsetBound;

use crate::board::StatusBoard;
use crate::chronyd::ChronydCommands;
use crate::clockbound::ClockBound;
use crate::error::DaemonError;
use crate::gate::{CLOSED_LOOK, ClockGate};
use crate::host_time::HostTimeFile;
use crate::kept_clock::{KeptClock, behind_ns, monotonic_ns};
use crate::learnt::LearntFile;
use crate::other_daemons::OtherDaemons;
use crate::polled::{Change, Source};
use crate::settings::Settings;
use crate::status::{DaemonStatus, Recents};
use crate::status_socket::StatusSocket;
use guard::ClockGuard;
use host_line::LineFollower;

/// The file that SIGHUP has it read again.
struct Configuration {
    path: PathBuf,
    is_optional: bool,
    /// What the command line changes in it.
    change: fn(&mut Settings),
}

/// Keeps the clock of this machine.
pub struct Daemon {
    settings: Settings,
    sampler: Sampler,
    observer: Observer,
    keeper: Keeper,
    sources: Vec<Source>,
    not_used: Vec<NotUsed>,
    clock: KeptClock,
    guard: ClockGuard,
    line: LineFollower,
    others: OtherDaemons,
    chronyd: ChronydCommands,
    clockbound: ClockBound,
    gate: Option<ClockGate>,
    host_time: HostTimeFile,
    learnt: LearntFile,
    summary: KeeperSummary,
    events: Vec<KeeperEvent>,
    /// Lines that follow the report of a disruption that is not classified yet.
    held: Vec<Line>,
    /// Half of what the service manager allows between two notifications, so
    /// that a late one does no harm; and when the last was sent.
    watchdog: Option<(Duration, Instant)>,
    begun: Instant,
    recents: Recents,
    /// Where other threads read its status, if any do.
    board: Option<StatusBoard>,
    /// Where its status is asked for.
    asked: Option<StatusSocket>,
    configuration: Option<Configuration>,
    /// What was measured before this bounds nothing, CLOCK_MONOTONIC, ns: another process had the
    /// kernel steer the clock faster than a bound grows.
    unbounded_until_ns: u64,
    /// SIGHUP has arrived.
    is_reload_due: bool,
    lock: Option<FileLock>,
}

impl Daemon {
    /// Keeps the clock until a signal, or the end of its duration; `log` gets
    /// each line but the first.
    ///
    /// # Errors
    /// It cannot wait, or no source had replied by the end of its duration.
    pub fn run(
        &mut self,
        mut wait: WaitUntil,
        mut log: impl FnMut(Line),
    ) -> Result<KeeperSummary, DaemonError> {
        let mut tokens = waiting::wake_for(self, &mut wait)?;
        let begun = Instant::now();
        self.begun = begun;
        let end = self.settings.duration.and_then(|duration| begun.checked_add(duration));
        let mut next = begun;
        loop {
            self.sample(&mut log);
            // What may have happened is classified first, by who saw how it was before.
            if self.is_reload_due && !self.observer.is_gathering() {
                self.is_reload_due = false;
                self.in_order(&mut log, |daemon, log| log(line(daemon.reload())));
                tokens = waiting::wake_for(self, &mut wait)?;
                self.sample(&mut log);
            }
            wait.mute(None);
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            // Overdue samples are left out, not made up for.
            let interval = self.observer.next_sample_in();
            let interval = if self.is_gate_closed() { interval.min(CLOSED_LOOK) } else { interval };
            next = (next + interval).max(Instant::now());
            let deadline = end.map_or(next, |end| next.min(end));
            if !waiting::wait(self, &mut wait, tokens, deadline, &mut log)? {
                break;
            }
            // What comes early is followed up at once.
            next = next.min(Instant::now());
        }
        self.store_learnt(true);
        self.gate.iter_mut().for_each(|gate| gate.end(&mut self.events));
        self.events.drain(..).map(line).for_each(&mut log);
        self.held.drain(..).for_each(&mut log);
        self.summary.ran_s = begun.elapsed().as_secs_f64();
        log(line(KeeperEvent::Summary(self.summary.clone())));
        if end.is_some() && self.summary.replies == 0 {
            return Err(DaemonError::NoReply);
        }
        Ok(self.summary.clone())
    }

    /// Where other threads of this process read the status, as of the last sample.
    pub fn board(&mut self) -> StatusBoard {
        let (status, growth_ppb) = (self.status(), self.growth_ppb());
        self.board.get_or_insert_with(|| StatusBoard::new(status, growth_ppb)).clone()
    }

    /// What is known now.
    pub fn status(&self) -> DaemonStatus {
        status_reply::status(self)
    }

    /// Whether the clock was moved since that was noticed last; the keeper is told.
    fn was_set(&mut self) -> bool {
        let moved = self.guard.take_move();
        moved.into_iter().for_each(|moved| guard::report(&mut self.keeper, moved));
        moved.is_some()
    }

    /// A sample, and what follows from it. Lines are held back while evidence
    /// comes in: what happened comes before its correction in the log.
    fn sample(&mut self, log: &mut impl FnMut(Line)) {
        self.in_order(log, |daemon, log| daemon.sample_and_act(log));
        if let Some(board) = &self.board {
            board.post(self.status(), self.growth_ppb());
        }
    }

    /// By how much the bound of the clock's error grows until the next sample, ppb.
    fn growth_ppb(&self) -> u32 {
        match self.keeper.error_bound(monotonic_ns()) {
            KeptBound::Within { growth_ppb, .. } => growth_ppb,
            KeptBound::Unknown | KeptBound::Disrupted => 0,
        }
    }

    fn in_order<L: FnMut(Line)>(
        &mut self,
        log: &mut L,
        work: impl FnOnce(&mut Self, &mut dyn FnMut(Line)),
    ) {
        let mut held = std::mem::take(&mut self.held);
        work(self, &mut |line| held.push(line));
        // A frozen process may hold what the log needs: journald itself, or a full pipe.
        if self.observer.is_gathering() || self.is_gate_closed() {
            self.held = held;
        } else {
            held.sort_by_key(|line| line.at_monotonic_ns);
            held.iter().for_each(|line| self.recents.note(line, monotonic_ns()));
            held.into_iter().for_each(log);
        }
    }

    fn sample_and_act(&mut self, log: &mut dyn FnMut(Line)) {
        self.observe(log);
        self.act(log);
        host_line::follow(self);
        self.events.drain(..).for_each(|event| log(line(event)));
        // Even if none is due: a message read later was then sent after a step
        // of this sample.
        self.read_host(log);
        if let Some((each, sent)) = &mut self.watchdog
            && sent.elapsed() >= *each
        {
            *sent = Instant::now();
            // If the manager has gone, the clock is kept all the same.
            let _ = service_manager::alive();
        }
    }

    /// Takes a sample, and passes what it shows to the keeper.
    fn observe(&mut self, log: &mut dyn FnMut(Line)) {
        self.summary.samples += 1;
        self.asked.iter_mut().for_each(StatusSocket::begin_sample);
        self.follow_others(self.others.in_calm());
        self.store_learnt(false);
        if let Some(moved) = self.guard.begin_sample() {
            guard::report(&mut self.keeper, moved);
        }
        let sample = self.sampler.sample(self.observer.is_gathering());
        self.clockbound.note_sample(&sample);
        self.host_time.note_sample(&sample);
        self.gate.iter_mut().for_each(|gate| gate.note_sample(&sample, &mut self.events));
        let is_beyond_bounds =
            sample.adjtimex.value().is_some_and(corrections::steers_beyond_bounds);
        let mut disruptions = self.observer.observe(sample).disruptions;
        self.host_time.note_disruptions(&disruptions);
        // What seems to have happened may have happened to the TSC.
        if !self.observer.is_gathering() {
            self.events.extend(self.host_time.publish(&self.settings));
        }
        disruptions.retain(|disruption| !self.keeper.is_own_step(disruption));
        self.note_steering(is_beyond_bounds);
        self.keeper.unset_clock(behind_ns());
        self.check_frequency();
        self.keeper.sample(monotonic_ns(), &disruptions);
        // What leaves the clock as it is would fill the log of a busy host.
        disruptions
            .retain(|one| !matches!(one.kinds.only(), Some(Kind::LongSteal | Kind::Steered)));
        for disruption in disruptions {
            *self.summary.disruptions.entry(disruption.kinds.to_string()).or_default() += 1;
            log(line_at(disruption.at_monotonic_ns, KeeperEvent::Disruption(disruption)));
        }
    }

    /// Reads the messages on the host's socket.
    fn read_host(&mut self, log: &mut dyn FnMut(Line)) {
        let Some(index) = self.sources.iter().position(|source| source.host().is_some()) else {
            return;
        };
        self.was_set();
        let polled = Source::poll_all(&mut self.sources, &[index]).pop();
        let offset = polled.and_then(|polled| polled.offset);
        let Some(host) = self.sources[index].host_mut() else { return };
        let (resumed, rejected) = (host.take_resumed(), host.take_rejected());
        if let Some(why) = rejected {
            log(line(KeeperEvent::HostMessageRejected { why: why.to_string() }));
        }
        if resumed {
            log(line(KeeperEvent::HostResumed));
            // What the pause did to the clocks is sampled before the host is heard out, so that
            // its answer, which is its only one, counts as measured since.
            self.observe(log);
            self.keeper.suspect(monotonic_ns(), CorrectionCause::HostResumed);
        }
        if offset.is_some() {
            self.summary.replies += 1;
            self.report_offset(index, offset);
        }
        self.act(log);
    }

    fn is_gate_closed(&self) -> bool {
        self.gate.as_ref().is_some_and(ClockGate::is_closed)
    }

    /// The gate follows what is published.
    fn follow_gate(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let now_ns = monotonic_ns();
        if gate.follow(self.keeper.error_bound(now_ns), now_ns, &mut self.events) {
            self.keeper.suspect(monotonic_ns(), CorrectionCause::GateWaits);
        }
        if gate.is_closed() {
            self.keeper.want_bound(gate.bound_ns(), now_ns);
        }
        let (step_threshold_ns, tolerance_ns) = gate.limits_ns(&self.settings.policy);
        self.keeper.set_limits(step_threshold_ns, tolerance_ns);
    }

    /// Carries out what the keeper wants, until it wants nothing more.
    fn act(&mut self, log: &mut dyn FnMut(Line)) {
        loop {
            // What is known changes with each: before a step, no bound holds.
            self.events.extend(self.clockbound.publish(self.keeper.error_bound(monotonic_ns())));
            self.follow_gate();
            self.events.drain(..).for_each(|event| log(line(event)));
            let Some(action) = self.keeper.next(monotonic_ns()) else { break };
            if self.is_cancelled(&action) {
                continue;
            }
            match action {
                Action::Measure(sources) => self.measure(&sources),
                Action::Step(by) => self.correct(&by, CorrectionMethod::Step),
                Action::Slew(by) => self.correct(&by, CorrectionMethod::Slew),
                Action::Makestep { by, restart } => {
                    if restart {
                        self.chronyd.restart();
                    }
                    self.correct(&by, CorrectionMethod::Makestep);
                }
                Action::Discipline(by) => self.discipline(by),
                Action::Restart => self.restart_other(),
                // They fail for want of permission alone, and so does a
                // correction, which is reported.
                Action::SetError(error) => drop(self.set_error(error)),
                Action::SetFigures { max_ns, estimated_ns } => {
                    drop(self.clock.set_figures(max_ns, estimated_ns));
                }
                Action::SetLeap(leap) => self.set_leap(leap),
                Action::WrongRate { ppb } => {
                    self.events.push(KeeperEvent::WrongRate { ppm: ppb / 1000.0 });
                }
                Action::FeedChronyd(offset) => self.feed(&offset),
                Action::Refuse(by, why) => {
                    self.summary.refused += 1;
                    self.events.push(KeeperEvent::Refused { basis: self.basis(&by), why });
                }
                // The clock that a dry run would have moved is not right.
                Action::Synchronised(_)
                    if self.clock.ahead_ns().unsigned_abs() > self.settings.policy.tolerance_ns => {
                }
                Action::Synchronised(left) => {
                    self.events.push(KeeperEvent::Synchronised(self.basis(&left)));
                }
            }
        }
    }

    fn measure(&mut self, which: &[usize]) {
        self.was_set();
        let begun = Instant::now();
        let polled = Source::poll_all(&mut self.sources, which);
        // The next sample is late by this, and by nothing else. Beyond the
        // timeout it is by something else: the machine may have been paused.
        let timeouts = which.iter().filter_map(|index| Some(self.sources.get(*index)?.timeout));
        self.observer.was_busy(begun.elapsed().min(timeouts.max().unwrap_or_default()));
        for one in polled {
            self.summary.requests += 1;
            self.summary.replies += u64::from(one.offset.is_some());
            let source = self.sources[one.index].name.clone();
            self.events.extend(one.change.map(|change| change_event(source, change)));
            self.report_announcement(one.index);
            self.report_offset(one.index, one.offset);
        }
    }

    /// Gives the keeper a source's offset from the clock as it would be.
    fn report_offset(&mut self, index: usize, offset: Option<OffsetBound>) {
        let ahead_ns = self.clock.ahead_ns();
        let offset = offset.map(|offset| OffsetBound {
            offset_ns: offset.offset_ns.saturating_sub(ahead_ns),
            ..offset
        });
        self.keeper.measured(index, monotonic_ns(), offset);
    }
}

fn change_event(source: String, change: Change) -> KeeperEvent {
    match change {
        Ok(()) => KeeperEvent::SourceReachable { source },
        Err(why) => KeeperEvent::SourceUnreachable { source, why },
    }
}

/// An event that happened now.
fn line(event: KeeperEvent) -> Line {
    line_at(monotonic_ns(), event)
}

/// An event that happened at `at_monotonic_ns`; its time of day is by the clock
/// as it is now.
fn line_at(at_monotonic_ns: u64, event: KeeperEvent) -> Line {
    let ago_ns = monotonic_ns().saturating_sub(at_monotonic_ns);
    let at_unix_ns = LinuxClock::Realtime.read_ns().and_then(|now_ns| now_ns.checked_sub(ago_ns));
    Line { at_unix_ns, at_monotonic_ns, event }
}
