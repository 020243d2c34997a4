//! How a daemon starts, and how it takes new settings while it runs.

use std::path::PathBuf;
use std::time::Instant;

use disruptions::Observer;
use inspect::sampler::Sampler;
use keeper::event::{KeeperEvent, KeeperStart, KeeperSummary, Line, NotUsed};
use keeper::{Corrector, Keeper, Policy};
use linux::file_lock::FileLock;
use linux::service_manager;
use linux::vmclock::VmClockDevice;
use linux::{cpus, system_clock};

use super::guard::ClockGuard;
use super::host_line::LineFollower;
use super::{Configuration, Daemon, line};
use crate::chronyd::ChronydCommands;
use crate::clockbound::{self, ClockBound};
use crate::configuration;
use crate::discovery;
use crate::error::DaemonError;
use crate::gate::ClockGate;
use crate::host_time::HostTimeFile;
use crate::kept_clock::{KeptClock, Simulated, behind_ns};
use crate::learnt::LearntFile;
use crate::lock;
use crate::other_daemons::OtherDaemons;
use crate::polled::Source;
use crate::settings::Settings;
use crate::status::Recents;
use crate::status_socket::StatusSocket;

impl Daemon {
    /// Finds the sources, and whether it may correct the clock.
    ///
    /// # Errors
    /// Why it cannot be kept by these settings.
    pub fn new(settings: Settings) -> Result<Self, DaemonError> {
        settings.check()?;
        ClockGate::check(&settings)?;
        let others = OtherDaemons::new(&settings)?;
        let lock = take_permission(&settings, false)?;
        let (found, mut not_used) = discovery::find(&settings, &[])?;
        let sources = discovery::take_sources(found, Vec::new(), &settings.sources);
        let sources: Vec<_> = sources.into_iter().map(|(source, _)| source).collect();
        let kinds: Vec<_> = sources.iter().map(|source| source.kind).collect();
        let asked = bind_status_socket(&settings, None, &mut not_used);
        let clockbound = ClockBound::new(&settings, lock.is_some(), &mut not_used);
        let host_time = HostTimeFile::new(&settings, &mut not_used);
        let gate = ClockGate::new(&settings, &mut not_used);
        let mut daemon = Self {
            sampler: Sampler::new(&settings.paths),
            observer: Observer::new(settings.interval),
            keeper: Keeper::new(policy(&settings, &others), &kinds).with_unset_clock(behind_ns()),
            chronyd: ChronydCommands::new(&settings.chronyd).map_err(DaemonError::Feed)?,
            clock: clock(&settings),
            guard: ClockGuard::default(),
            line: LineFollower::default(),
            clockbound,
            host_time,
            gate,
            learnt: LearntFile::new(settings.state_folder.clone()),
            settings,
            sources,
            not_used,
            others,
            summary: KeeperSummary::default(),
            events: Vec::new(),
            held: Vec::new(),
            watchdog: service_manager::watchdog().map(|each| (each / 2, Instant::now())),
            begun: Instant::now(),
            recents: Recents::default(),
            board: None,
            asked,
            configuration: None,
            lock,
        };
        daemon.start_discipline();
        Ok(daemon)
    }

    /// Has SIGHUP read the file again, without which all is as by default where it
    /// is optional. `change` is what the command line changes
    /// in what it says.
    #[must_use]
    pub fn reloading(self, path: PathBuf, is_optional: bool, change: fn(&mut Settings)) -> Self {
        Self { configuration: Some(Configuration { path, is_optional, change }), ..self }
    }

    /// The first line of its log.
    pub fn started(&self) -> Line {
        line(KeeperEvent::Started(Box::new(self.description())))
    }

    fn description(&self) -> KeeperStart {
        KeeperStart {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dry_run: self.settings.dry_run,
            interval_s: self.settings.interval.as_secs_f64(),
            policy: self.keeper.policy().clone(),
            sources: self.sources.iter().map(|source| source.name.clone()).collect(),
            smearing: self.sources.iter().filter_map(Source::smearing).collect(),
            not_used: self.not_used.clone(),
            other_daemons: self.others.running.iter().map(|daemon| daemon.kind).collect(),
            other_units: self.others.running.iter().filter_map(|it| it.unit.clone()).collect(),
        }
    }

    /// Reads the configuration again: as a whole, or not at all.
    pub(super) fn reload(&mut self) -> KeeperEvent {
        let Some(Configuration { path, is_optional, change }) = &self.configuration else {
            return KeeperEvent::ReloadRefused {
                why: "started without a configuration file".into(),
            };
        };
        let (change, path) = (*change, path.clone());
        let taken = match configuration::load_or_default(&path, *is_optional) {
            Ok((mut settings, _)) => {
                change(&mut settings);
                self.take_over(settings).map_err(|why| format!("{}: {why}", path.display()))
            }
            Err(why) => Err(why.to_string().replace('\n', "; ")),
        };
        match taken {
            Ok(()) => KeeperEvent::Reloaded(Box::new(self.description())),
            Err(why) => KeeperEvent::ReloadRefused { why },
        }
    }

    /// Goes on with other settings; what was learnt of sources that stay as they
    /// are is kept.
    ///
    /// # Errors
    /// As of [`Daemon::new`]; it goes on as before.
    fn take_over(&mut self, settings: Settings) -> Result<(), DaemonError> {
        settings.check()?;
        ClockGate::check(&settings)?;
        let others = OtherDaemons::new(&settings)?;
        let lock = take_permission(&settings, self.lock.is_some())?;
        let (found, mut not_used) = discovery::find(&settings, &self.sources)?;
        let chronyd = ChronydCommands::new(&settings.chronyd).map_err(DaemonError::Feed)?;
        // Nothing fails from here on.
        let before = std::mem::take(&mut self.sources);
        let sources = discovery::take_sources(found, before, &settings.sources);
        let kinds: Vec<_> = sources.iter().map(|(source, was)| (source.kind, *was)).collect();
        let was_corrector = self.keeper.policy().corrector;
        self.keeper.reconfigure(policy(&settings, &others), &kinds);
        if settings.interval != self.settings.interval {
            self.observer = Observer::new(settings.interval);
        }
        // A page that this process may read by now is opened again.
        if settings.paths != self.settings.paths
            || self.clockbound.is_of_other_permissions(&settings.paths.vmclock)
        {
            self.sampler = Sampler::new(&settings.paths);
        }
        if settings.chronyd != self.settings.chronyd {
            self.chronyd = chronyd;
        }
        if settings.state_folder != self.settings.state_folder {
            self.learnt = LearntFile::new(settings.state_folder.clone());
        }
        let is_other_clock = settings.dry_run != self.settings.dry_run;
        if is_other_clock {
            self.clock = clock(&settings);
        }
        // The frequency that was learnt is that of the other.
        let starts = is_other_clock || self.keeper.policy().corrector != was_corrector;
        let is_alone = self.lock.is_some() || lock.is_some();
        self.reopen_outputs(&settings, is_alone, &mut not_used);
        self.lock = if settings.sets_the_clock() { lock.or(self.lock.take()) } else { None };
        self.asked = bind_status_socket(&settings, self.asked.take(), &mut not_used);
        self.sources = sources.into_iter().map(|(source, _)| source).collect();
        (self.not_used, self.others) = (not_used, others);
        self.settings = settings;
        if starts {
            self.start_keeper(None);
        }
        Ok(())
    }

    /// Opens what is published, and the gate, by other settings. A reload retries each that
    /// failed, or reports its reason again.
    fn reopen_outputs(&mut self, settings: &Settings, is_alone: bool, not_used: &mut Vec<NotUsed>) {
        let is_other_clock = settings.dry_run != self.settings.dry_run;
        if is_other_clock
            || settings.clockbound != self.settings.clockbound
            || settings.paths != self.settings.paths
            || self.clockbound.is_off()
            || self.clockbound.is_of_other_permissions(&settings.paths.vmclock)
        {
            // What was published ends before another begins.
            self.clockbound = ClockBound::default();
            self.clockbound = ClockBound::new(settings, is_alone, not_used);
        } else {
            clockbound::report_marker(settings, not_used);
        }
        if is_other_clock
            || settings.host_time != self.settings.host_time
            || self.host_time.is_off()
        {
            self.host_time = HostTimeFile::default();
            self.host_time = HostTimeFile::new(settings, not_used);
        }
        if is_other_clock || settings.gate != self.settings.gate || self.gate.is_none() {
            // What is frozen is thawed first, and that is logged.
            self.gate.iter_mut().for_each(|gate| gate.end(&mut self.events));
            self.gate = None;
            self.gate = ClockGate::new(settings, not_used);
        }
    }
}

/// What an oscillator may gain or lose beside its measured rate, ppb: what a processor's data sheet
/// states, as ClockBound has it.
const ONE_HOST_PPB: u64 = 15_000;

/// How far the oscillators of two hosts may be apart, ppb: 50 ppm, either way.
const TWO_HOSTS_PPB: u64 = 100_000;

/// What may be corrected, and by which means: another daemon that disciplines the clock is
/// left to do so.
fn policy(settings: &Settings, others: &OtherDaemons) -> Policy {
    let corrector = match settings.chronyd.corrector() {
        Corrector::Kernel if others.current().is_some() => Corrector::Beside,
        corrector => corrector,
    };
    let max_clock_error_ppb = settings.max_clock_error_ppb.unwrap_or_else(|| {
        // The page's marker tells of another host before the next measurement would.
        let is_one_host = cpus::has_hypervisor() == Some(false)
            || VmClockDevice::open(&settings.paths.vmclock).is_ok();
        if is_one_host { ONE_HOST_PPB } else { TWO_HOSTS_PPB }
    });
    let max_distance = settings.sources.max_distance.as_nanos();
    let max_distance_ns = u64::try_from(max_distance).unwrap_or(u64::MAX);
    Policy { corrector, max_distance_ns, max_clock_error_ppb, ..settings.policy.clone() }
}

/// The lock of who may set the clock, unless it is held.
fn take_permission(settings: &Settings, is_held: bool) -> Result<Option<FileLock>, DaemonError> {
    let takes = settings.sets_the_clock() && !settings.force && !is_held;
    let lock = takes.then(lock::take);
    // Who has the permission can take the lock, or learn why not.
    if let Some(Err(why @ DaemonError::AlreadyRunning { .. })) = lock {
        return Err(why);
    }
    // Better reported now than at the first pause.
    if settings.sets_the_clock()
        && let Err(why) = system_clock::may_set()
    {
        return Err(DaemonError::NotPermitted(why));
    }
    lock.transpose()
}

fn clock(settings: &Settings) -> KeptClock {
    if settings.dry_run { KeptClock::Simulated(Simulated::default()) } else { KeptClock::kernel() }
}

/// The clock is kept though nobody can ask: why not is reported with the
/// sources that are not used.
fn bind_status_socket(
    settings: &Settings,
    before: Option<StatusSocket>,
    not_used: &mut Vec<NotUsed>,
) -> Option<StatusSocket> {
    let path = settings.status_socket.as_ref()?;
    if let Some(socket) = before.filter(|socket| socket.path() == path) {
        return Some(socket);
    }
    let source = format!("status {}", path.display());
    let refused = |why| NotUsed { source, why: format!("{why}; try another status-socket") };
    StatusSocket::bind(path).map_err(|why| not_used.push(refused(why))).ok()
}

#[cfg(test)]
mod tests;
