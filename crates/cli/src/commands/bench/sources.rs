//! `bench --list`: all clock sources in order of cost. The cost is measured for the source in use;
//! the others are ordered by how they are read.

mod absent;
pub(crate) mod report;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use inspect::clock_call::Call;
use inspect::measure::{MeasurementPlan, MeasuringSession};
use inspect::tree::Tree;

use super::BenchOutput;
use crate::commands::capture::captured;
use crate::error::{COULD_NOT, CliError};
use crate::output::{self, Format};
use report::ClocksReport;

/// Time for the one call that is measured.
const MEASURING: Duration = Duration::from_millis(200);

/// Prints the list; with `all`, also sources that the machine does not offer.
pub(super) fn list(root: Option<&Path>, all: bool, format: Format) -> Result<ExitCode, CliError> {
    let report = match root {
        Some(folder) => ClocksReport::new(&inspect::read(&captured(folder)?), None, all),
        None => {
            let mut plan = MeasurementPlan::monotonic(MEASURING);
            plan.calls.push(Call::Counter);
            let mut session = MeasuringSession::new(plan);
            session.round(1, &|_| ());
            let measured = session.finish();
            ClocksReport::new(&inspect::read(&Tree::live()), Some(&measured), all)
        }
    };
    // The report printed below gives the reasons.
    let nothing = report.current.value().is_none() && report.available.value().is_none();
    match format {
        Format::Json => output::json(&BenchOutput::Sources(report))?,
        Format::Text => output::text(&table::render(&report))?,
    }
    Ok(if nothing { ExitCode::from(COULD_NOT) } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests;
