//! The options, and the policy they make.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use facts::steering::TimeKeeperKind;
use keeper::{Hand, Policy};
use platform::reference::ntp::NtpServer;

use crate::duration;
use crate::error::CliError;
use crate::named_phc::{self, NamedPhc};
use crate::output::LineFormat;
use crate::probe_paths::ProbePathArgs;

/// Keep the time of day right through pauses, restores and sleeps.
///
/// Looks at this machine's clocks twice a second. After a disruption, or when
/// a source of the time moves against the clock, compares the clock with all
/// sources at once and corrects it: by a step beyond --step-threshold, by a
/// slew below. Sources are looked for: a VMClock page, hosts' PTP clocks
/// (ptp_kvm and the like), the RTC; NTP servers are named with --ntp. Needs
/// CAP_SYS_TIME, but for --dry-run and --chrony. Ends at SIGTERM or Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ask this NTP server; may be repeated, and three outvote a wrong one
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server)]
    pub(super) ntp: Vec<String>,

    /// Read this PTP hardware clock too, such as /dev/ptp0; may be repeated. A
    /// network card's has to be said to count UTC or TAI: /dev/ptp1,utc, or
    /// /dev/ptp1,tai by what the kernel knows of TAI, or /dev/ptp1,tai=37
    #[arg(long, value_name = "DEVICE[,utc|,tai]", value_parser = named_phc::parse)]
    pub(super) phc: Vec<NamedPhc>,

    /// Listen on this Unix datagram socket for what the host says: `time
    /// SECONDS [+- SECONDS]` or `resumed`
    #[arg(long, value_name = "PATH")]
    pub(super) host_socket: Option<PathBuf>,

    /// Leave out these kinds of source that would be looked for, separated by
    /// commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS")]
    pub(super) without: Vec<Found>,

    /// Step the clock where it is off by more than this; slew it below
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration::parse)]
    step_threshold: Duration,

    /// Leave alone what is off by no more than this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration::parse)]
    tolerance: Duration,

    /// Do not believe that the clock is off by more than this; 8784h is a year
    #[arg(long, value_name = "TIME", default_value = "8784h", value_parser = duration::parse)]
    max_step: Duration,

    /// One more step is allowed each so often, and one slew
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    min_interval: Duration,

    /// So many steps may be made in a row, so that the second of two pauses
    /// is corrected too
    #[arg(long, value_name = "STEPS", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    burst: u32,

    /// Never set the clock back: slow it where it is ahead
    #[arg(long)]
    never_backward: bool,

    /// Leave the clock to chronyd: `makestep` has it make the steps (by its
    /// command socket, another with `makestep=PATH`), `sock=PATH` feeds it what
    /// the sources say; may be repeated
    #[arg(long, value_name = "makestep|sock=PATH")]
    pub(super) chrony: Vec<Chrony>,

    /// Start although these clock keepers run, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = keeper_name)]
    pub(super) beside: Vec<TimeKeeperKind>,

    /// Start whatever else keeps the clock
    #[arg(long)]
    pub(super) force: bool,

    /// Say what would be done, and do nothing; needs no permission
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Time from look to look, 10ms to 10s
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = interval)]
    pub(super) interval: Duration,

    /// Time from one question to a server to the next while all is calm, 1s
    /// to 24h; servers that are not yours want 64s and more
    #[arg(long, value_name = "TIME", default_value = "64s", value_parser = poll)]
    poll: Duration,

    /// Wait for a server's answer for so long, 1ms to 1s
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = patience)]
    pub(super) patience: Duration,

    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(super) duration: Option<Duration>,

    /// How to log: text, or json, an object a line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    pub(super) format: LineFormat,

    #[command(flatten)]
    pub(super) places: ProbePathArgs,
}

/// The sources that are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Found {
    /// The host's VMClock page
    Vmclock,
    /// Hosts' PTP clocks
    Phc,
    /// The battery-backed clock
    Rtc,
}

/// A way to work with chronyd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chrony {
    /// `chronyc makestep`, at chronyd's command socket: chronyc's own idea of
    /// it where none is named.
    Makestep(Option<PathBuf>),
    /// The socket of its SOCK reference clock.
    Sock(PathBuf),
}

impl FromStr for Chrony {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "makestep" => Ok(Self::Makestep(None)),
            Some(("makestep", path)) if !path.is_empty() => Ok(Self::Makestep(Some(path.into()))),
            Some(("sock", path)) if !path.is_empty() => Ok(Self::Sock(path.into())),
            _ => Err(format!("expected makestep, makestep=PATH or sock=PATH, found {text:?}")),
        }
    }
}

fn server(text: &str) -> Result<String, String> {
    match NtpServer::check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(why) => Err(format!("expected HOST, HOST:PORT or [ADDRESS]:PORT: {why}")),
    }
}

fn keeper_name(text: &str) -> Result<TimeKeeperKind, String> {
    let names = || TimeKeeperKind::ALL.map(TimeKeeperKind::name).join(", ");
    let named = TimeKeeperKind::ALL.into_iter().find(|kind| kind.name() == text);
    named.ok_or_else(|| format!("expected one of {}, found {text:?}", names()))
}

fn interval(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_millis(10)..=Duration::from_secs(10), "10ms to 10s")
}

fn poll(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=Duration::from_secs(86_400), "1s to 24h")
}

fn patience(text: &str) -> Result<Duration, String> {
    // So long may a look be held up, and a signal with it.
    duration::within(text, Duration::from_millis(1)..=Duration::from_secs(1), "1ms to 1s")
}

impl Args {
    /// # Errors
    /// Two options contradict each other.
    pub(super) fn can_be_kept(&self) -> Result<(), CliError> {
        let asks = |chrony: &Chrony| matches!(chrony, Chrony::Makestep(_));
        if self.never_backward && self.chrony.iter().any(asks) {
            return Err(CliError::Failed {
                cause: "--never-backward cannot be kept with --chrony makestep: chronyd steps by \
                        what it measured itself, backward too"
                    .into(),
                remedy: "one of the two; --chrony sock=PATH leaves steps to `makestep` in \
                         chrony.conf"
                    .into(),
            });
        }
        let contradiction = |cause: &str| CliError::Failed {
            cause: cause.into(),
            remedy: "--tolerance below --step-threshold below --max-step".into(),
        };
        if self.tolerance > self.step_threshold {
            return Err(contradiction(
                "what --tolerance leaves alone is beyond the --step-threshold",
            ));
        }
        if self.max_step < self.step_threshold {
            return Err(contradiction("no step is beyond --step-threshold and within --max-step"));
        }
        Ok(())
    }

    pub(super) fn policy(&self) -> Policy {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let step = self.chrony.iter().any(|chrony| matches!(chrony, Chrony::Makestep(_)));
        let feed = self.chrony.iter().any(|chrony| matches!(chrony, Chrony::Sock(_)));
        Policy {
            step_threshold_ns: ns(self.step_threshold),
            tolerance_ns: ns(self.tolerance),
            max_step_ns: ns(self.max_step),
            min_interval_ns: ns(self.min_interval),
            burst: self.burst,
            never_backward: self.never_backward,
            poll_ns: ns(self.poll),
            hand: if step || feed { Hand::Chronyd { step, feed } } else { Hand::Own },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn policy(arguments: &[&str]) -> Policy {
        let line = ["keep"].iter().chain(arguments);
        CommandLine::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args.policy()
    }

    #[test]
    fn what_is_not_asked_for_is_the_keepers_default() {
        assert_eq!(policy(&[]), Policy::default());
    }

    #[test]
    fn chronyd_is_asked_fed_or_both() {
        let hand = |arguments: &[&str]| policy(arguments).hand;
        assert_eq!(hand(&["--chrony", "makestep"]), Hand::Chronyd { step: true, feed: false });
        let sock = ["--chrony", "sock=/run/chrony.keep.sock"];
        assert_eq!(hand(&sock), Hand::Chronyd { step: false, feed: true });
        let both = [&sock[..], &["--chrony", "makestep"]].concat();
        assert_eq!(hand(&both), Hand::Chronyd { step: true, feed: true });
    }

    #[test]
    fn what_chronyd_does_cannot_be_promised() {
        let can = |arguments: &[&str]| {
            let line = ["keep", "--never-backward"].iter().chain(arguments);
            CommandLine::try_parse_from(line).unwrap().args.can_be_kept()
        };
        assert!(can(&[]).is_ok() && can(&["--chrony", "sock=/run/c.sock"]).is_ok());
        let refused = can(&["--chrony", "makestep"]).unwrap_err().to_string();
        assert!(refused.contains("--chrony makestep"), "{refused}");
    }

    #[test]
    fn a_policy_that_contradicts_itself_is_refused() {
        let can = |arguments: &[&str]| {
            let line = ["keep"].iter().chain(arguments);
            CommandLine::try_parse_from(line).unwrap().args.can_be_kept()
        };
        assert!(can(&["--tolerance", "100ms", "--step-threshold", "100ms"]).is_ok());
        for arguments in [["--tolerance", "1s"], ["--max-step", "50ms"]] {
            let refused = can(&arguments).unwrap_err().to_string();
            assert!(refused.contains(arguments[0]), "{refused}");
        }
    }

    #[test]
    fn nonsense_is_quoted_back() {
        for (option, text) in [
            ("--chrony", "slew"),
            ("--chrony", "sock="),
            ("--chrony", "makestep="),
            ("--beside", "sundial"),
            ("--interval", "1ms"),
            ("--poll", "100ms"),
            ("--patience", "2s"),
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
