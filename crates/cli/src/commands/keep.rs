//! `parachron keep`: a small daemon that keeps the time of day right.

mod apart;
mod beside;
mod chrony;
mod clock;
mod daemon;
pub(crate) mod line;
mod log;
mod options;
mod sources;
mod text;

use std::process::ExitCode;

use keeper::Hand;
use platform::name_lock::NameLock;
use platform::system_clock;

use crate::error::CliError;
use crate::error::cannot_wait;
use beside::Beside;
use daemon::Daemon;
use linux::wait::{Signals, Wait};
pub(crate) use options::Args;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    args.can_be_kept()?;
    let beside = Beside::new(args)?;
    let corrects = !args.dry_run && args.policy().hand == Hand::Own;
    // Held to the end.
    let _alone = if corrects && !args.force { Some(alone()?) } else { None };
    if corrects {
        permitted()?;
    }
    let (sources, not_used) = sources::find(args)?;
    let wait = Wait::new(Signals::ending().map_err(cannot_wait)?);
    // A dry run is there for its reader; a clock is kept though the log is lost.
    let wait = if args.dry_run { wait.for_reader() } else { wait };
    let mut daemon = Daemon::new(args, sources, beside)?;
    daemon.start(not_used)?;
    daemon.run(wait)
}

/// The name that a keeper holds which corrects by its own hand.
const NAME: &str = "parachron-keep";

/// Two would each correct what the other has corrected already.
fn alone() -> Result<NameLock, CliError> {
    match NameLock::take(NAME) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(CliError::Failed {
            cause: format!("another `parachron keep` keeps this clock already (it holds @{NAME})"),
            remedy: "stop it first: systemctl stop parachron-keep, or `ss -xlp` names it; \
                     --dry-run goes beside it"
                .into(),
        }),
        Err(error) => Err(CliError::Failed {
            cause: format!("cannot tell whether another `parachron keep` runs: {error}"),
            remedy: "a higher limit of open files (`ulimit -n`), or --force if none runs".into(),
        }),
    }
}

/// Better told at once than at the first pause.
fn permitted() -> Result<(), CliError> {
    match system_clock::may_set() {
        Ok(()) => Ok(()),
        Err(why) => Err(CliError::Failed {
            cause: format!("cannot set the time of day: {why}"),
            remedy: "as root, or as a service with AmbientCapabilities=CAP_SYS_TIME \
                     (packaging/parachron-keep.service); --dry-run needs no permission"
                .into(),
        }),
    }
}
