//! `parachron doctor`: what is wrong with a machine's clocks, and what to do.

mod csv;
mod markdown;
mod rule_list;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use doctor::finding::{Diagnosis, Severity};
use doctor::report::DoctorReport;
use inspect::measure;
use inspect::tree::Tree;
use instruments::measurements::Measurements;

use crate::commands::capture::captured;
use crate::error::CliError;
use crate::output::progress::Progress;
use crate::output::{self, Format};

/// Exit code for a finding at or above `--fail-on`.
const FOUND: u8 = 1;

/// Time for the measurement: with the facts, the whole run stays under 3 s.
const MEASURING: Duration = Duration::from_millis(1500);

/// Diagnose this machine's clocks: what is wrong, and what to do about it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Examine a captured folder instead of this machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Also list the rules that found nothing, and those that could not run
    #[arg(long, short)]
    verbose: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Exit with code 1 on a finding of this severity or worse
    #[arg(long, value_name = "SEVERITY", value_parser = severities())]
    fail_on: Option<Severity>,

    /// Skip the measurement: facts only, in milliseconds
    #[arg(long)]
    no_measure: bool,

    /// List all rules with what they check, and exit
    #[arg(long, conflicts_with_all = ["root", "verbose", "fail_on", "no_measure"])]
    rules: bool,
}

/// The severities that `--fail-on` names.
fn severities() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(["warning", "error"])
        .map(|name| if name == "error" { Severity::Error } else { Severity::Warning })
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.rules {
        return rule_list::print(args.format);
    }
    let report = match &args.root {
        Some(folder) => DoctorReport::new(inspect::read(&captured(folder)?), None),
        None => {
            let measurements = (!args.no_measure).then(measure_here);
            DoctorReport::new(inspect::read(&Tree::live()), measurements)
        }
    };
    match args.format {
        Format::Text => output::text(&text::render(&report, args.verbose, output::colours()))?,
        Format::Markdown => output::text(&markdown::render(&report, args.verbose))?,
        Format::Csv => output::text(&csv::render(&report.diagnosis, args.verbose))?,
        Format::Json => output::json(&report)?,
    }
    Ok(exit_code(&report.diagnosis, args.fail_on))
}

fn measure_here() -> Measurements {
    let progress = Progress::new(MEASURING);
    measure::quick(MEASURING, &|what| progress.doing(what))
}

fn exit_code(diagnosis: &Diagnosis, fail_on: Option<Severity>) -> ExitCode {
    // Worst first.
    let worst = diagnosis.findings.first().map(|worst| worst.severity);
    if fail_on.is_some_and(|limit| worst >= Some(limit)) {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests;
