//! What a daemon is started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::exporter::ListenAddress;
use facts::steering::TimeKeeperKind;
use inspect::sampler::ProbePaths;
use keeper::{Corrector, Policy};
use sources::NtpPeer;
use sources::chronyd_client::ChronydAddress;
use sources::duplicate_of;
use sources::phc::PhcSpec;

use crate::error::DaemonError;
use crate::gate::control_groups::GateEntry;
use crate::gate::socket;

/// A daemon's settings. The defaults correct the clock by what the host
/// offers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// What may be corrected. Its corrector follows from [`Settings::chronyd`].
    pub policy: Policy,
    /// By how much the clock may gain or lose between two measurements, ppb, whatever they show of
    /// its rate; by what the machine is, where there is none.
    pub max_clock_error_ppb: Option<u64>,
    /// The time sources.
    pub sources: SourceSettings,
    /// A chronyd that corrects the clock in place of this process.
    pub chronyd: ChronydSettings,
    /// Where the clock's error bound is published for clients of ClockBound,
    /// as [`linux::clockbound::FOLDER`]; nowhere by default, and in no dry run.
    pub clockbound: Option<PathBuf>,
    /// The file in which the time is published for VMMs; nowhere by default, and in
    /// no dry run.
    pub host_time: Option<PathBuf>,
    /// The workload that is frozen while the clock may be wrong.
    pub gate: GateSettings,
    /// The interval of samples.
    pub interval: Duration,
    /// When to end; never by itself where there is none.
    pub duration: Option<Duration>,
    /// Report corrections, and make none.
    pub dry_run: bool,
    /// The folder in which the learnt frequency is stored for the next start.
    pub state_folder: Option<PathBuf>,
    /// Daemons that are not minded, though they discipline the clock.
    pub allowed: Vec<TimeKeeperKind>,
    /// Discipline the clock whatever other daemons run, or if that is unknown.
    pub force: bool,
    /// Where status is served to whoever asks, at no place where there is none.
    pub status_socket: Option<PathBuf>,
    /// Where the program serves its metrics, as it starts; nowhere by default.
    pub metrics: Option<ListenAddress>,
    /// Whether other machines may connect there.
    pub listen_anywhere: bool,
    /// The folder of many machines' records, into which the program writes this one's as
    /// it starts; nowhere by default.
    pub records: Option<PathBuf>,
    /// This machine's take no more than this, MB.
    pub records_limit_mb: u32,
    /// What trusts this clock, by the names of `fleet`.
    pub consumers: Vec<String>,
    /// The files that samples are read from.
    pub paths: ProbePaths,
}

/// The gate: no control group by default.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateSettings {
    /// What is frozen.
    pub entries: Vec<GateEntry>,
    /// What the clock is off by at most when it opens.
    pub bound: Duration,
    /// It opens after this whatever the clock is.
    pub limit: Duration,
    /// Where `parachron gate` asks.
    pub socket: PathBuf,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bound: Duration::from_millis(10),
            limit: Duration::from_secs(10),
            socket: socket::PATH.into(),
        }
    }
}

/// The time sources: those named, and those found on this machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceSettings {
    /// NTP servers, `HOST` or `HOST:PORT`.
    pub ntp: Vec<String>,
    /// How long to wait for their replies, and for name lookups.
    pub timeout: Duration,
    /// An offset whose error may be larger shows no time.
    pub max_distance: Duration,
    /// PTP hardware clocks.
    pub phc: Vec<PhcSpec>,
    /// A socket for the host's messages.
    pub host_socket: Option<PathBuf>,
    /// A port of AF_VSOCK to which the host connects.
    pub host_vsock: Option<u32>,
    /// A virtio-serial port that the host writes to, `/dev/virtio-ports/NAME`.
    pub host_port: Option<PathBuf>,
    /// Kinds of source that are not probed for.
    pub excluded: Vec<DiscoveredSource>,
}

/// The kinds of source that are found on a machine by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscoveredSource {
    /// The host's VMClock page.
    Vmclock,
    /// PTP clocks of hosts.
    Phc,
    /// The battery-backed clock.
    Rtc,
}

impl DiscoveredSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vmclock, Self::Phc, Self::Rtc];
}

/// How a chronyd is used; not at all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChronydSettings {
    /// Send it `makestep` where a step is due: at this address, or at
    /// chronyc's default.
    pub makestep: Option<Option<ChronydAddress>>,
    /// Feed the selected source to its SOCK reference clock here.
    pub feed: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            max_clock_error_ppb: None,
            sources: SourceSettings::default(),
            chronyd: ChronydSettings::default(),
            clockbound: None,
            host_time: None,
            gate: GateSettings::default(),
            interval: Duration::from_millis(500),
            duration: None,
            dry_run: false,
            state_folder: None,
            allowed: Vec::new(),
            force: false,
            status_socket: None,
            metrics: None,
            listen_anywhere: false,
            records: None,
            records_limit_mb: 64,
            consumers: Vec::new(),
            paths: ProbePaths::default(),
        }
    }
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            ntp: Vec::new(),
            timeout: Duration::from_millis(300),
            max_distance: Duration::from_secs(1),
            phc: Vec::new(),
            host_socket: None,
            host_vsock: None,
            host_port: None,
            excluded: Vec::new(),
        }
    }
}

impl ChronydSettings {
    /// What corrects the clock then.
    pub fn corrector(&self) -> Corrector {
        let (makestep, feed) = (self.makestep.is_some(), self.feed.is_some());
        if makestep || feed { Corrector::Chronyd { makestep, feed } } else { Corrector::Kernel }
    }
}

impl Settings {
    /// Whether this process is to set the clock.
    pub(crate) fn sets_the_clock(&self) -> bool {
        !self.dry_run && self.chronyd.corrector() == Corrector::Kernel
    }

    /// Whether two of them contradict each other. [`crate::Daemon::new`]
    /// checks as well.
    ///
    /// # Errors
    /// Which.
    pub fn check(&self) -> Result<(), DaemonError> {
        let Policy { tolerance_ns, step_threshold_ns, max_step_ns, .. } = self.policy;
        let (keys, cause, remedy): (&'static [_], _, _) =
            if self.policy.never_backward && self.chronyd.makestep.is_some() {
                let cause = "--never-backward contradicts --chrony makestep: chronyd steps by its \
                             own measurements, and may step backward";
                let remedy = "use only one of the two; with --chrony sock=PATH, chronyd steps by \
                              its own `makestep` in chrony.conf";
                (&["never-backward"], cause.to_owned(), remedy)
            } else if tolerance_ns > step_threshold_ns {
                let cause = "--tolerance is larger than --step-threshold";
                (&["tolerance", "step-threshold"], cause.to_owned(), IN_ORDER)
            } else if max_step_ns < step_threshold_ns {
                let cause = "--step-threshold is larger than --max-step: no step is possible";
                (&["max-step", "step-threshold"], cause.to_owned(), IN_ORDER)
            } else if let Some(address) =
                self.metrics.as_ref().filter(|it| !it.is_local() && !self.listen_anywhere)
            {
                let cause = format!(
                    "metrics: {address} is not a loopback address or a Unix socket; serve other \
                     machines through a proxy, or set listen-anywhere = true"
                );
                (&["metrics"], cause, "set `metrics` to 127.0.0.1:PORT")
            } else if let Some(cause) = duplicate_server(&self.sources.ntp) {
                (&["ntp"], cause, sources::DUPLICATE_REMEDY)
            } else {
                return Ok(());
            };
        Err(DaemonError::Contradiction { keys, cause, remedy: remedy.to_owned() })
    }
}

const IN_ORDER: &str = "set --tolerance below --step-threshold, and that below --max-step";

/// How a server is named twice, as far as that shows before names are resolved.
fn duplicate_server(servers: &[String]) -> Option<String> {
    let named = |server: &String| (format!("ntp {server}"), NtpPeer::address_in(server));
    let named: Vec<_> = servers.iter().map(named).collect();
    named.iter().enumerate().find_map(|(index, (later, address))| {
        let mut before = named.iter().take(index);
        before.find_map(|(earlier, its)| duplicate_of((earlier, *its), (later, *address)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chronyd_is_commanded_fed_or_both() {
        let corrector = |makestep: bool, feed: bool| {
            let feed = feed.then(|| "/run/chrony.keep.sock".into());
            ChronydSettings { makestep: makestep.then_some(None), feed }.corrector()
        };
        assert_eq!(corrector(false, false), Corrector::Kernel);
        for (makestep, feed) in [(true, false), (false, true), (true, true)] {
            assert_eq!(corrector(makestep, feed), Corrector::Chronyd { makestep, feed });
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let check = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check()
        };
        assert!(check(|settings| settings.policy.never_backward = true).is_ok());
        let tolerance = check(|settings| settings.policy.tolerance_ns = 1_000_000_000);
        let keys = |checked: Result<(), DaemonError>| match checked {
            Err(DaemonError::Contradiction { keys, .. }) => keys,
            other => panic!("{other:?}"),
        };
        assert_eq!(keys(tolerance), ["tolerance", "step-threshold"]);
        let max_step = check(|settings| settings.policy.max_step_ns = 50_000_000);
        assert_eq!(keys(max_step), ["max-step", "step-threshold"]);
        let backward = check(|settings| {
            settings.policy.never_backward = true;
            settings.chronyd.makestep = Some(None);
        });
        assert_eq!(keys(backward), ["never-backward"]);
    }

    #[test]
    fn a_server_is_used_once_whatever_its_name() {
        let duplicate = |servers: [&str; 2]| duplicate_server(&servers.map(str::to_owned));
        for two in [["127.0.0.1", "127.0.0.2"], ["a.example", "b.example"], ["::1", "[::1]:124"]] {
            assert_eq!(duplicate(two), None, "{two:?}");
        }
        for (one, message) in [
            (["a.example", "a.example"], "ntp a.example is given twice"),
            (
                ["127.0.0.1", "127.0.0.1:123"],
                "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123",
            ),
            (["::1", "[::1]:123"], "ntp ::1 and ntp [::1]:123 are one server, [::1]:123"),
        ] {
            assert_eq!(duplicate(one).unwrap(), message);
        }
    }
}
