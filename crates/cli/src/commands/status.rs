//! `parachron status`: what the daemon knows and would do.

mod text;

use std::io::{ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use daemon::status::Status;
use daemon::{configuration, status_socket};
use linux::wait::{Signals, Wait, Wake};

use crate::error::{CliError, cannot_wait};
use crate::output::{self, LineFormat};

/// Show the daemon's sources, the clock, and what would be done.
///
/// Asks `parachrond`, or a `parachron keep`, on this machine; any user may. Each
/// source has its offset from the clock (positive where the clock is behind),
/// the bound of that offset's error, its age and its state.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ask again each second, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// The daemon's socket: its `status-socket`
    #[arg(long, value_name = "PATH", default_value = configuration::STATUS_SOCKET)]
    socket: PathBuf,

    /// Print text, or json, with --watch an object a line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,
}

/// How often --watch asks.
const EACH: Duration = Duration::from_secs(1);

/// To the upper left, and what was there is erased.
const HOME_AND_ERASE: &str = "\x1b[H\x1b[J";

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if !args.watch {
        print(args, &ask(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wait = Wait::new(Signals::ending().map_err(cannot_wait)?).for_reader();
    let mut next = Instant::now();
    loop {
        let status = ask(args)?;
        if args.format == LineFormat::Text && std::io::stdout().is_terminal() {
            output::text(HOME_AND_ERASE)?;
        }
        print(args, &status)?;
        next = (next + EACH).max(Instant::now());
        if wait.until(next).map_err(cannot_wait)? != Wake::Deadline {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn print(args: &Args, status: &Status) -> Result<(), CliError> {
    match args.format {
        LineFormat::Text => output::text(&text::page(status)),
        LineFormat::Json if args.watch => output::text(&output::json_line(status)?),
        LineFormat::Json => output::json(status),
    }
}

fn ask(args: &Args) -> Result<Status, CliError> {
    let path = args.socket.display();
    let reply = status_socket::ask(&args.socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => CliError::Failed {
            cause: format!("no daemon runs: nobody listens at {path}"),
            remedy: "systemctl start parachrond, or `parachron keep`; --socket where its \
                     status-socket is another"
                .into(),
        },
        _ => CliError::Failed {
            cause: format!("no reply from the daemon at {path}: {error}"),
            remedy: "again, and `systemctl status parachrond`".into(),
        },
    })?;
    serde_json::from_str(&reply).map_err(|error| CliError::Failed {
        cause: format!("what the daemon at {path} replied is no status: {error}"),
        remedy: "a parachron and a parachrond of one version".into(),
    })
}
