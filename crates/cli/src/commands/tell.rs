//! `parachron tell`: the time, from a host to its guests.

pub(crate) mod line;
mod options;
mod watch;

use std::process::ExitCode;

use crate::error::{COULD_NOT, CliError};
pub(crate) use options::Args;
use watch::Watch;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.watch {
        return Watch::new(args).run();
    }
    let all: Vec<_> = args.guests.iter().collect();
    let told = args.tell(&all, args.reason, args.host()?);
    args.print(&told)?;
    let all_told = told.iter().all(|(_, line)| line.is_told());
    Ok(if all_told { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}
