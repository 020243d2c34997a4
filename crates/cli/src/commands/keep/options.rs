//! The options, and the settings they make.

use std::path::PathBuf;
use std::time::Duration;

use daemon::values::{self, Chrony};
use daemon::{DiscoveredSource, Settings, advice, configuration};
use facts::steering::TimeKeeperKind;
use instruments::duration;
use keeper::Policy;
use sources::phc::PhcSpec;

use crate::output::LineFormat;
use crate::probe_paths::ProbePathArgs;

/// Keep the clock right through pauses, restores and suspends.
///
/// Samples this machine's clocks twice a second. After a disruption, or when a
/// time source moves against the clock, compares the clock with all sources at
/// once and corrects it: by a step beyond --step-threshold, by a slew below.
/// Finds a VMClock page, hosts' PTP clocks (ptp_kvm and the like) and the RTC
/// by itself; NTP servers are named with --ntp. Needs CAP_SYS_TIME, except with
/// --dry-run or --chrony. Ends at SIGTERM or Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Poll this NTP server; may be repeated: three outvote a wrong one
    #[arg(long, value_name = "HOST[:PORT]", value_parser = values::server)]
    ntp: Vec<String>,

    /// Read this PTP hardware clock too, such as /dev/ptp0; may be repeated. A
    /// network card's needs its time scale: /dev/ptp1,utc, or /dev/ptp1,tai
    /// with the kernel's TAI offset, or /dev/ptp1,tai=37
    #[arg(long, value_name = "DEVICE[,utc|,tai]")]
    phc: Vec<PhcSpec>,

    /// Read the host's messages from this Unix datagram socket: `time SECONDS
    /// [+- SECONDS]`, `resumed`, or notices, which it answers with a request
    #[arg(long, value_name = "PATH")]
    host_socket: Option<PathBuf>,

    /// Let the host connect to this port of AF_VSOCK
    #[arg(long, value_name = "PORT", num_args = 0..=1,
          default_missing_value = "123")]
    host_vsock: Option<u32>,

    /// Listen to the host on this virtio-serial port, /dev/virtio-ports/NAME
    #[arg(long, value_name = "PATH")]
    host_port: Option<PathBuf>,

    /// Publish the clock's error bound for clients of ClockBound, in shm, shm0
    /// and shm1 in this folder
    #[arg(long, value_name = "FOLDER", num_args = 0..=1,
          default_missing_value = linux::clockbound::FOLDER)]
    clockbound: Option<PathBuf>,

    /// Do not use these sources, separated by commas: the host's VMClock page,
    /// hosts' PTP clocks, the RTC
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    no_source: Vec<DiscoveredSource>,

    /// Step offsets larger than this, slew smaller ones
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration::parse)]
    step_threshold: Duration,

    /// Ignore offsets up to this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration::parse)]
    tolerance: Duration,

    /// Largest correction by one source alone that no disruption accounts for
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    max_step: Duration,

    /// Minimum interval between steps after a burst, and between slews
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    min_interval: Duration,

    /// Steps allowed back to back
    #[arg(long, value_name = "STEPS", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    burst: u32,

    /// Never set the clock back: slow it while it is ahead
    #[arg(long)]
    never_backward: bool,

    /// Leave the clock to chronyd: `makestep` sends it that command (to its
    /// command socket, or with `makestep=PATH` to another), `sock=PATH` feeds
    /// it the selected source; may be repeated
    #[arg(long, value_name = "makestep|sock=PATH")]
    chrony: Vec<Chrony>,

    /// Discipline the clock even if these daemons run, separated by commas;
    /// beside another one keep only steps
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = values::daemon_name)]
    allow_daemon: Vec<TimeKeeperKind>,

    /// Discipline the clock whatever other daemons run
    #[arg(long)]
    force: bool,

    /// Where `parachron status` asks; without this option a dry run is not asked
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,

    /// Report corrections and make none; needs no permission
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Interval of samples, 10ms to 10s
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = values::interval)]
    interval: Duration,

    /// Interval between requests to a server while nothing happens, 1s to 24h;
    /// 64s or more for servers that are not yours
    #[arg(long, value_name = "TIME", default_value = "64s", value_parser = values::poll)]
    poll: Duration,

    /// Timeout for a server's reply, 1ms to 1s
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = values::timeout)]
    timeout: Duration,

    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Log as text, or as json, an object a line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    pub(super) format: LineFormat,

    #[command(flatten)]
    paths: ProbePathArgs,
}

impl Args {
    pub(super) fn settings(&self) -> Settings {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut settings = Settings::default();
        settings.policy = Policy {
            step_threshold_ns: ns(self.step_threshold),
            tolerance_ns: ns(self.tolerance),
            max_step_ns: ns(self.max_step),
            min_interval_ns: ns(self.min_interval),
            burst: self.burst,
            never_backward: self.never_backward,
            poll_ns: ns(self.poll),
            ..settings.policy
        };
        settings.sources.ntp.clone_from(&self.ntp);
        settings.sources.timeout = self.timeout;
        settings.sources.phc.clone_from(&self.phc);
        settings.sources.host_socket.clone_from(&self.host_socket);
        settings.sources.host_vsock = self.host_vsock;
        settings.sources.host_port.clone_from(&self.host_port);
        settings.clockbound.clone_from(&self.clockbound);
        settings.sources.excluded = self.no_source.clone();
        settings.sources.describe = advice::phc::with_remedy;
        settings.chronyd = self.chrony.iter().cloned().collect();
        (settings.interval, settings.duration) = (self.interval, self.duration);
        (settings.dry_run, settings.force) = (self.dry_run, self.force);
        let by_default = || (!self.dry_run).then(|| configuration::STATUS_SOCKET.into());
        settings.status_socket = self.status_socket.clone().or_else(by_default);
        settings.allowed.clone_from(&self.allow_daemon);
        // Of a service with StateDirectory= (systemd.exec(5)).
        settings.state_folder = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        settings.paths = self.paths.paths();
        settings
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use keeper::Corrector;

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn settings(arguments: &[&str]) -> Settings {
        let line = ["keep"].iter().chain(arguments);
        CommandLine::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args.settings()
    }

    #[test]
    fn without_options_the_settings_are_the_daemons_defaults() {
        let (of_options, defaults) = (settings(&[]), Settings::default());
        assert_eq!(of_options.policy, Policy::default());
        assert_eq!(of_options.sources.timeout, defaults.sources.timeout);
        assert_eq!(of_options.interval, defaults.interval);
    }

    #[test]
    fn chronyd_is_commanded_fed_or_both() {
        let corrector = |arguments: &[&str]| settings(arguments).chronyd.corrector();
        let of = |makestep, feed| Corrector::Chronyd { makestep, feed };
        assert_eq!(corrector(&["--chrony", "makestep"]), of(true, false));
        let sock = ["--chrony", "sock=/run/chrony.keep.sock"];
        assert_eq!(corrector(&sock), of(false, true));
        let both = [&sock[..], &["--chrony", "makestep"]].concat();
        assert_eq!(corrector(&both), of(true, true));
    }

    #[test]
    fn options_that_contradict_each_other_are_named() {
        let check = |arguments: &[&str]| settings(arguments).check();
        let sock = ["--never-backward", "--chrony", "sock=/run/c.sock"];
        assert!(check(&["--never-backward"]).is_ok() && check(&sock).is_ok());
        assert!(check(&["--tolerance", "100ms", "--step-threshold", "100ms"]).is_ok());
        for (arguments, option) in [
            (["--never-backward", "--chrony", "makestep"], "--chrony makestep"),
            (["--burst", "3", "--tolerance=1s"], "--tolerance"),
            (["--burst", "3", "--max-step=50ms"], "--max-step"),
        ] {
            let refused = advice::of(&check(&arguments).unwrap_err()).0;
            assert!(refused.contains(option), "{refused}");
        }
    }

    #[test]
    fn nonsense_is_quoted_back() {
        for (option, text) in [
            ("--chrony", "slew"),
            ("--chrony", "sock="),
            ("--chrony", "makestep="),
            ("--allow-daemon", "sundial"),
            ("--interval", "1ms"),
            ("--poll", "100ms"),
            ("--timeout", "2s"),
            ("--burst", "0"),
            ("--ntp", "192.0.2.1:99999"),
            ("--ntp", "host name"),
            ("--ntp", "ntp://192.0.2.1"),
            ("--ntp", ":123"),
            ("--phc", "/dev/ptp1,gps"),
        ] {
            let error = CommandLine::try_parse_from(["keep", option, text]).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
