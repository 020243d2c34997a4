//! `parachron status`: what the daemon knows and would do.

mod text;

use std::io::{ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use daemon::status::DaemonStatus;
use daemon::{configuration, status_socket};
use instruments::duration;
use linux::wait::{Signals, WaitUntil, Wake};

use crate::error::{CliError, cannot_wait};
use crate::output::{self, LineFormat};

/// Show the daemon's sources, the clock, and the next correction.
///
/// Asks `parachrond` or `parachron keep` on this machine, which any user may. Each source has its
/// offset from the clock (positive if the clock is behind), the bound of that offset's error, the
/// age of the measurement and a state.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Refresh every second, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Wait until the clock is synchronised and its error is at most this, such as 10ms; for
    /// units that must not start earlier
    #[arg(long, value_name = "BOUND", value_parser = duration::parse, conflicts_with = "watch")]
    wait: Option<Duration>,

    /// With --wait: give up after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "wait")]
    timeout: Option<Duration>,

    /// Socket of the daemon, its key `status-socket`
    #[arg(long, value_name = "PATH", default_value = configuration::STATUS_SOCKET)]
    socket: PathBuf,

    /// Print text, or json; with --watch one JSON object per line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,
}

/// How often --watch and --wait ask.
const INTERVAL: Duration = Duration::from_secs(1);

/// To the upper left, and what was there is erased.
const HOME_AND_ERASE: &str = "\x1b[H\x1b[J";

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if let Some(bound) = args.wait {
        return wait_for(args, bound);
    }
    if !args.watch {
        print(args, &ask(args, None)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?).for_reader();
    let mut next = Instant::now();
    loop {
        let status = ask(args, None)?;
        if args.format == LineFormat::Text && std::io::stdout().is_terminal() {
            output::text(HOME_AND_ERASE)?;
        }
        print(args, &status)?;
        next = (next + INTERVAL).max(Instant::now());
        if wait.until(next).map_err(cannot_wait)? != Wake::Deadline {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Waits until the clock is right within the bound; a daemon may still be starting.
fn wait_for(args: &Args, bound: Duration) -> Result<ExitCode, CliError> {
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    let bound_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    let end = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let asked = ask(args, Some(bound_ns));
        if let Ok(status) = &asked
            && status.dry_run
        {
            return Err(CliError::Failed {
                cause: "the daemon makes a dry run, which corrects nothing: there is nothing to \
                        wait for"
                    .into(),
                remedy: "start it without --dry-run (`dry-run = false`), then wait again".into(),
            });
        }
        if let Ok(status) = &asked
            && status.clock.is_right_within(bound.as_nanos())
        {
            print(args, status)?;
            return Ok(ExitCode::SUCCESS);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            let clock = text::clock(&asked?.clock);
            return Err(CliError::Failed {
                cause: format!("the clock is not yet right within {bound:?}: {clock}"),
                remedy: "raise --timeout or the bound; `parachron status` shows the sources".into(),
            });
        }
        let next = Instant::now() + INTERVAL;
        let next = end.map_or(next, |end| next.min(end));
        if wait.until(next).map_err(cannot_wait)? != Wake::Deadline {
            return Ok(ExitCode::FAILURE);
        }
    }
}

fn print(args: &Args, status: &DaemonStatus) -> Result<(), CliError> {
    match args.format {
        LineFormat::Text => output::text(&text::page(status)),
        LineFormat::Json if args.watch => output::text(&output::json_line(status)?),
        LineFormat::Json => output::json(status),
    }
}

/// Asks the daemon, which polls sooner while it knows the clock less well than that bound, ns.
fn ask(args: &Args, bound_ns: Option<u64>) -> Result<DaemonStatus, CliError> {
    let path = args.socket.display();
    let reply = status_socket::ask(&args.socket, bound_ns).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => CliError::Failed {
            cause: format!("no daemon is running: nothing listens at {path}"),
            remedy: "run `systemctl start parachrond` or `parachron keep`; with another \
                     `status-socket`, pass it as --socket"
                .into(),
        },
        _ => CliError::Failed {
            cause: format!("no reply from the daemon at {path}: {error}"),
            remedy: "retry; if it fails again, run `systemctl status parachrond`".into(),
        },
    })?;
    if bound_ns.is_some() && reply.starts_with("{\"error\":") {
        // An earlier version takes the plain request alone.
        return ask(args, None);
    }
    serde_json::from_str(&reply).map_err(|error| CliError::Failed {
        cause: format!("cannot parse the reply of the daemon at {path}: {error}"),
        remedy: "install the same version of parachron and parachrond".into(),
    })
}
