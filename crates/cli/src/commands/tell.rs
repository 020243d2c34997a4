//! `parachron tell`: the time, from a host to its guests.

pub(crate) mod line;
mod options;
mod suspended;
mod watch;

use std::process::ExitCode;

use crate::error::{COULD_NOT, CliError};
use line::Fate;
use options::AT_ONCE;
pub(crate) use options::Args;
use watch::Watch;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    args.check()?;
    if args.watch {
        return Watch::new(args).run();
    }
    let all: Vec<_> = args.guests.iter().map(|guest| (guest, args.reason)).collect();
    let mut all_told = true;
    for some in all.chunks(AT_ONCE) {
        for line in args.tell(some, args.host()?) {
            args.print(&line)?;
            all_told &= line.fate() == Fate::Told;
        }
    }
    Ok(if all_told { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}
