//! `parachron clocks`: all clock sources in order of cost.

mod absent;
pub(crate) mod report;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use instruments::measurements::Measurements;
use platform::call::Call;
use platform::clock::Clock;
use platform::tree::Tree;

use crate::error::{COULD_NOT, CliError};
use crate::measure::{Plan, Session};
use crate::output::{self, Format};
use report::ClocksReport;

/// List all clock sources in order of cost.
///
/// What reading costs is measured for the source in use; the others' order is
/// that of what a read of them takes. `parachron bench --each-source` switches
/// through them and measures each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also list sources that kernels have and this machine does not offer,
    /// and why
    #[arg(long)]
    all: bool,

    /// Read a captured tree instead of this machine, and measure nothing
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// How to print the table
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Time for the one call that is measured.
const MEASURING: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let report = match &args.root {
        Some(folder) => ClocksReport::new(&platform::read(&captured(folder)?), None, args.all),
        None => {
            let measured = measure_current();
            ClocksReport::new(&platform::read(&Tree::live()), Some(&measured), args.all)
        }
    };
    match args.format {
        Format::Json => output::json(&report)?,
        format => output::text(&table::render(&report, format))?,
    }
    // Said above, with the reasons.
    let nothing = report.current.known().is_none() && report.available.known().is_none();
    Ok(if nothing { ExitCode::from(COULD_NOT) } else { ExitCode::SUCCESS })
}

fn captured(folder: &Path) -> Result<Tree, CliError> {
    Tree::captured(folder).map_err(|error| CliError::Failed {
        cause: error.to_string(),
        remedy: "a folder that `parachron capture DIR` has written; without --root, clocks \
                 looks at this machine"
            .into(),
    })
}

/// What the time costs now, and where it is answered: nothing else.
fn measure_current() -> Measurements {
    let plan = Plan {
        calls: vec![Call::ClockGettime(Clock::Monotonic)],
        page: false,
        samples: u64::MAX,
        costs: MEASURING,
        moving: Duration::ZERO,
        pair: Duration::ZERO,
        pairs: 0,
    };
    let mut session = Session::new(plan);
    session.round(1, &|_| ());
    session.finish()
}

#[cfg(test)]
mod tests;
