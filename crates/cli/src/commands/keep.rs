//! `parachron keep`: a small daemon that keeps the time of day right.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use daemon::configuration::{self, ConfigOption, OPTIONS};
use daemon::words::{self, EventDescription};
use daemon::{Daemon, DaemonError, Settings, advice, manager};
use instruments::duration;
use keeper::event::Line;
use linux::wait::{Signals, WaitUntil};

use crate::error::{CliError, cannot_wait};
use crate::output::{self, LineFormat, message_line};

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut daemon = Daemon::new(args.settings.clone()).map_err(cli_error)?;
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    // A dry run is only for its reader; a clock is kept though the log is lost.
    let wait = if args.settings.dry_run { wait.for_reader() } else { wait };
    match write_log(args.format, &daemon.started()) {
        Ok(()) | Err(CliError::ClosedPipe) => {}
        Err(error) => return Err(error),
    }
    // The clock is kept though the log is lost: then there is nobody to report that to.
    let write = |line| drop(write_log(args.format, &line));
    daemon.run(wait, write).map_err(cli_error)?;
    Ok(ExitCode::SUCCESS)
}

fn cli_error(error: DaemonError) -> CliError {
    let (cause, remedy) = advice::advise(&error);
    CliError::Ended { cause, remedy, code: error.exit_code() }
}

// The log: lines of text or JSON on standard output, which a service
// manager puts into its journal; and the status line for the manager itself.

/// Writes a line.
///
/// # Errors
/// Standard output cannot be written.
fn write_log(format: LineFormat, line: &Line) -> Result<(), CliError> {
    manager::notify(&line.event);
    match format {
        LineFormat::Text => {
            let EventDescription { kind, message, .. } = words::describe(&line.event);
            output::text(&(message_line(line.at_unix_ns, &kind, &message) + "\n"))
        }
        LineFormat::Json => output::text(&output::json_line(line)?),
    }
}

// The options: those of the daemon's configuration file, and two of a run by hand.

const ABOUT: &str = "Keep the clock correct across pauses, restores and suspends";

const LONG_ABOUT: &str = "\
Keep the clock correct across pauses, restores and suspends

Runs the daemon in the foreground. It samples this machine's clocks twice a second. After a \
disruption, or when a time source moves against the clock, it compares the clock with all \
sources at once and corrects it: by a step beyond --step-threshold, by a slew below. It finds a \
VMClock page, hosts' PTP clocks (ptp_kvm and the like) and the RTC automatically; name NTP \
servers with --ntp. Needs CAP_SYS_TIME, except with --dry-run or --chrony. Ends at SIGTERM or \
Ctrl-C.";

/// What a run by hand has besides the daemon's settings.
#[derive(Debug, clap::Args)]
struct Foreground {
    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Log as text, or as json with one object per line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,
}

/// The settings that the options make, and how to log.
#[derive(Debug)]
pub(crate) struct Args {
    settings: Settings,
    format: LineFormat,
}

/// The daemon's options that a run by hand has.
fn options() -> impl Iterator<Item = &'static ConfigOption> {
    OPTIONS.iter().filter(|option| !option.is_of_service())
}

fn argument(option: &'static ConfigOption) -> Arg {
    let default = option.default().filter(|_| option.key != "clockbound");
    let default = default.map_or(String::new(), |value| format!(" [default: {value}]"));
    let arg = Arg::new(option.key).long(option.key).help(option.help() + &default);
    if option.is_flag() {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(option.value_name);
    let or = |value| arg.clone().num_args(0..=1).default_missing_value(value);
    match option.value_name {
        _ if option.key == "host-vsock" => or("123"),
        _ if option.key == "clockbound" => or(linux::clockbound::FOLDER),
        "NAMES" | "KINDS" => arg.action(ArgAction::Append).value_delimiter(','),
        _ if option.is_list() => arg.action(ArgAction::Append),
        _ => arg,
    }
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let command = command.args(options().map(argument));
        <Foreground as clap::Args>::augment_args(command).about(ABOUT).long_about(LONG_ABOUT)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Foreground { duration, format } = Foreground::from_arg_matches(matches)?;
        let mut settings = Settings::default();
        settings.duration = duration;
        // Of a service with StateDirectory= (systemd.exec(5)).
        settings.state_folder = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        for option in options() {
            let values: Vec<String> = if option.is_flag() {
                matches.get_flag(option.key).then(String::new).into_iter().collect()
            } else {
                matches.get_many::<String>(option.key).into_iter().flatten().cloned().collect()
            };
            if !values.is_empty() {
                option.set(&mut settings, &values).map_err(|why| {
                    let (key, values) = (option.key, values.join(","));
                    let message = format!("invalid value '{values}' for '--{key}': {why}\n");
                    clap::Error::raw(ErrorKind::ValueValidation, message)
                })?;
            }
        }
        if !matches.contains_id("status-socket") {
            settings.status_socket = Some(configuration::STATUS_SOCKET.into());
        }
        Ok(Self { settings, format })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use daemon::advice;
    use keeper::{Corrector, Policy};

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn settings(arguments: &[&str]) -> Settings {
        let line = ["keep"].iter().chain(arguments);
        CommandLine::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args.settings
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
            let refused = advice::advise(&check(&arguments).unwrap_err()).0;
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
