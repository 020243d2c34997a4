//! `parachron clocks`: all clock sources in order of cost.

mod absent;
pub(crate) mod report;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use inspect::clock_call::Call;
use inspect::measure::{MeasurementPlan, MeasuringSession};
use inspect::tree::Tree;

use crate::commands::capture::captured;
use crate::error::{COULD_NOT, CliError};
use crate::output::{self, Format};
use report::ClocksReport;

/// List all clock sources in order of cost.
///
/// The cost is measured for the source in use; the others are ordered by how
/// they are read. `parachron bench --each-source` switches through all of them
/// and measures each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also list sources that this machine does not offer, and why
    #[arg(long)]
    all: bool,

    /// Read a captured folder instead of this machine, and measure nothing
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
        Some(folder) => ClocksReport::new(&inspect::read(&captured(folder)?), None, args.all),
        None => {
            let mut plan = MeasurementPlan::monotonic(MEASURING);
            plan.calls.push(Call::Counter);
            let mut session = MeasuringSession::new(plan);
            session.round(1, &|_| ());
            let measured = session.finish();
            ClocksReport::new(&inspect::read(&Tree::live()), Some(&measured), args.all)
        }
    };
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&table::render(&report))?,
    }
    // The report printed above gives the reasons.
    let nothing = report.current.value().is_none() && report.available.value().is_none();
    Ok(if nothing { ExitCode::from(COULD_NOT) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests;
