//! How a daemon starts, and how it takes new settings while it runs.

use std::path::PathBuf;
use std::time::Instant;

use disruptions::Observer;
use inspect::sampler::Sampler;
use keeper::event::{KeeperEvent, KeeperStart, KeeperSummary, Line, NotUsed};
use keeper::{CorrectionCause, Corrector, Keeper, Policy, SourceKind};
use linux::file_lock::FileLock;
use linux::service_manager;
use linux::vmclock::VmClockDevice;
use linux::{cpus, system_clock};

use super::guard::ClockGuard;
use super::host_line::LineFollower;
use super::{Configuration, Daemon, line};
use crate::advice;
use crate::chronyd::ChronydCommands;
use crate::clockbound::ClockBound;
use crate::configuration;
use crate::discovery;
use crate::error::DaemonError;
use crate::gate::ClockGate;
use crate::host_time::HostTimeFile;
use crate::kept_clock::{KeptClock, Simulated, behind_ns, monotonic_ns};
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
        let found = Found::probe(&settings, false)?;
        let mut daemon = Self {
            sampler: Sampler::new(&settings.paths),
            observer: Observer::new(settings.interval),
            keeper: Keeper::new(policy(&settings, &found.others), &found.kinds())
                .with_unset_clock(behind_ns()),
            clock: clock(&settings),
            sources: Vec::new(),
            not_used: Vec::new(),
            guard: ClockGuard::default(),
            line: LineFollower::default(),
            others: found.others,
            chronyd: found.chronyd,
            clockbound: ClockBound::default(),
            host_time: HostTimeFile::default(),
            gate: None,
            learnt: LearntFile::new(settings.state_folder.clone()),
            settings,
            summary: KeeperSummary::default(),
            events: Vec::new(),
            held: Vec::new(),
            watchdog: service_manager::watchdog().map(|each| (each / 2, Instant::now())),
            begun: Instant::now(),
            recents: Recents::default(),
            board: None,
            asked: None,
            configuration: None,
            unbounded_until_ns: 0,
            is_reload_due: false,
            lock: found.lock,
        };
        daemon.open(found.sources, found.not_used);
        daemon.start_discipline();
        Ok(daemon)
    }

    /// Opens what the settings name, after what was opened before has ended. The clock is kept
    /// even if nobody can ask: why not is reported with the sources that are not used.
    fn open(&mut self, sources: Vec<Source>, mut not_used: Vec<NotUsed>) {
        let settings = &self.settings;
        self.sources = sources;
        not_used.extend(discovery::channels_in_use(&mut self.sources));
        self.asked = self.asked.take().or_else(|| {
            let path = settings.status_socket.as_ref()?;
            let source = format!("status {}", path.display());
            let refused =
                |why| NotUsed { source, why: format!("{why}; try another status-socket") };
            StatusSocket::bind(path).map_err(|why| not_used.push(refused(why))).ok()
        });
        self.clockbound = ClockBound::new(settings, self.lock.is_some(), &mut not_used);
        if self.host_time.is_off() {
            self.host_time = HostTimeFile::new(settings, &mut not_used);
        }
        if self.gate.is_none() {
            self.gate = ClockGate::new(settings, &mut not_used);
        }
        self.not_used = not_used;
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
                let refused = |why: DaemonError| advice::in_file(&why.to_string());
                let taken = self.take_over(settings).map_err(refused);
                taken.map_err(|why| format!("{}: {why}", path.display()))
            }
            Err(why) => Err(why.to_string().replace('\n', "; ")),
        };
        match taken {
            Ok(()) => KeeperEvent::Reloaded(Box::new(self.description())),
            Err(why) => KeeperEvent::ReloadRefused { why },
        }
    }

    /// Starts again by other settings, and carries over what was learnt of the clock and of sources
    /// that have the same name, and the gate with what it has frozen.
    ///
    /// # Errors
    /// As of [`Daemon::new`]; the settings before stay in force.
    pub(super) fn take_over(&mut self, settings: Settings) -> Result<(), DaemonError> {
        let found = Found::probe(&settings, self.lock.is_some())?;
        // Nothing fails from here on.
        let index_before = |name: &str| self.sources.iter().position(|before| before.name == name);
        let kinds = found.sources.iter().map(|source| (source.kind, index_before(&source.name)));
        let kinds: Vec<_> = kinds.collect();
        let was_corrector = self.keeper.policy().corrector;
        self.keeper.reconfigure(policy(&settings, &found.others), &kinds);
        let is_other_clock = settings.dry_run != self.settings.dry_run;
        let is_other_interval = settings.interval != self.settings.interval;
        if is_other_clock {
            self.clock = clock(&settings);
        }
        if is_other_interval {
            self.observer = Observer::new(settings.interval);
        }
        if is_other_clock || is_other_interval {
            // No bound is of the other clock, or of before what the other observer did not see.
            self.keeper.suspect(monotonic_ns(), CorrectionCause::Start);
        }
        self.sampler = Sampler::new(&settings.paths);
        // What listens or is published ends before its successor begins.
        (self.sources, self.clockbound) = (Vec::new(), ClockBound::default());
        if settings.status_socket != self.settings.status_socket {
            self.asked = None;
        }
        if is_other_clock || settings.host_time != self.settings.host_time {
            self.host_time = HostTimeFile::default();
        }
        if is_other_clock || settings.gate != self.settings.gate {
            // What is frozen is thawed, and that is logged.
            self.gate.iter_mut().for_each(|gate| gate.end(&mut self.events));
            self.gate = None;
        }
        self.learnt = LearntFile::new(settings.state_folder.clone());
        self.lock = found.lock.or(self.lock.take()).filter(|_| settings.sets_the_clock());
        (self.settings, self.others, self.chronyd) = (settings, found.others, found.chronyd);
        self.open(found.sources, found.not_used);
        // The frequency that was learnt is that of the other.
        if is_other_clock || self.keeper.policy().corrector != was_corrector {
            self.start_keeper(None);
        }
        Ok(())
    }
}

/// What is found by settings that a daemon can be run with.
struct Found {
    others: OtherDaemons,
    lock: Option<FileLock>,
    sources: Vec<Source>,
    not_used: Vec<NotUsed>,
    chronyd: ChronydCommands,
}

impl Found {
    fn probe(settings: &Settings, is_locked: bool) -> Result<Self, DaemonError> {
        settings.check()?;
        ClockGate::check(settings)?;
        let others = OtherDaemons::new(settings)?;
        let lock = take_permission(settings, is_locked)?;
        let (sources, not_used) = discovery::find(settings)?;
        let chronyd = ChronydCommands::new(&settings.chronyd).map_err(DaemonError::Feed)?;
        Ok(Self { others, lock, sources, not_used, chronyd })
    }

    fn kinds(&self) -> Vec<SourceKind> {
        self.sources.iter().map(|source| source.kind).collect()
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
    if let Some(Err(why @ DaemonError::AlreadyRunning)) = lock {
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

#[cfg(test)]
mod tests;
