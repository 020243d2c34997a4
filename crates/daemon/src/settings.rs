//! What a daemon is started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::exporter::ListenAddress;
use facts::steering::TimeKeeperKind;
use inspect::sampler::ProbePaths;
use keeper::{Corrector, Policy};
use sources::chronyd_client::ChronydAddress;
use sources::phc::PhcSpec;
use sources::unique::duplicate_of;
use sources::{NtpPeer, SourceError};

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
    /// How a source's error is put into an event; as it is displayed by
    /// default.
    pub describe: fn(&SourceError) -> String,
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
            describe: ToString::to_string,
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
        if self.policy.never_backward && self.chronyd.makestep.is_some() {
            Err(DaemonError::MakestepMayGoBackward)
        } else if self.policy.tolerance_ns > self.policy.step_threshold_ns {
            Err(DaemonError::ToleranceBeyondThreshold)
        } else if self.policy.max_step_ns < self.policy.step_threshold_ns {
            Err(DaemonError::ThresholdBeyondMaxStep)
        } else if let Some(address) =
            self.metrics.as_ref().filter(|address| !address.is_local() && !self.listen_anywhere)
        {
            Err(DaemonError::ListensAnywhere(address.clone()))
        } else {
            unique_servers(&self.sources.ntp)
        }
    }
}

/// # Errors
/// A server is named twice, as far as that shows before names are resolved.
fn unique_servers(servers: &[String]) -> Result<(), DaemonError> {
    let named = |server: &String| (format!("ntp {server}"), NtpPeer::address_in(server));
    let named: Vec<_> = servers.iter().map(named).collect();
    for (index, (later, address)) in named.iter().enumerate() {
        let mut before = named.iter().take(index);
        let is_same =
            |(earlier, its): &(String, _)| duplicate_of((earlier, *its), (later, *address));
        if let Some(cause) = before.find_map(is_same) {
            return Err(DaemonError::DuplicateSource(cause));
        }
    }
    Ok(())
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
        assert!(matches!(tolerance, Err(DaemonError::ToleranceBeyondThreshold)));
        let max_step = check(|settings| settings.policy.max_step_ns = 50_000_000);
        assert!(matches!(max_step, Err(DaemonError::ThresholdBeyondMaxStep)));
        let backward = check(|settings| {
            settings.policy.never_backward = true;
            settings.chronyd.makestep = Some(None);
        });
        assert!(matches!(backward, Err(DaemonError::MakestepMayGoBackward)));
    }

    #[test]
    fn a_server_is_used_once_whatever_its_name() {
        let unique = |servers: [&str; 2]| unique_servers(&servers.map(str::to_owned));
        for two in [["127.0.0.1", "127.0.0.2"], ["a.example", "b.example"], ["::1", "[::1]:124"]] {
            assert!(unique(two).is_ok(), "{two:?}");
        }
        for (one, message) in [
            (["a.example", "a.example"], "ntp a.example is given twice"),
            (
                ["127.0.0.1", "127.0.0.1:123"],
                "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123",
            ),
            (["::1", "[::1]:123"], "ntp ::1 and ntp [::1]:123 are one server, [::1]:123"),
        ] {
            assert_eq!(unique(one).unwrap_err().to_string(), message);
        }
    }
}
