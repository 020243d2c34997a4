//! `parachron simulate`: what becomes of a fleet's clocks.

mod csv;
mod load;
mod plot;
mod remedies;
mod run;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use simulator::Simulation;
use simulator::report::{Of, SimulateReport};
use simulator::seed::Seed;

use crate::error::{self, COULD_NOT, CliError};
use crate::output::{self, Format};
use run::DisciplineRun;

/// Simulate a fleet of guests, and what happens to their clocks.
///
/// Runs the shipped code: the host's clock pages, the kernel's timekeeping and `keep`. The
/// same seed gives the same result, on any number of threads. Reads no clock of this
/// machine and sets none. Exit code 0: every promise held. 1: one was broken. 2: the
/// simulation did not run, or not to its end.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario's file, or the name of a built-in scenario; without it the built-in
    /// scenarios are listed
    scenario: Option<String>,

    /// Number of guests
    #[arg(long, value_name = "N")]
    guests: Option<u64>,

    /// Number of days
    #[arg(long, value_name = "DAYS")]
    days: Option<f64>,

    /// Seed of the random numbers, such as 7; or 7v2, as a report prints it, with the version
    /// of the random streams
    #[arg(long, value_name = "SEED")]
    seed: Option<Seed>,

    /// Number of threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,

    /// Print the scenario instead of simulating it, as a start for your own
    #[arg(long)]
    print: bool,

    /// If a promise was broken, print a scenario with the fewest events that break it
    #[arg(long, conflicts_with = "print")]
    shrink: bool,

    /// How to print the result; CSV has a row for each guest
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Also plot the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let Some(name) = &args.scenario else {
        output::text(&text::list(&load::built_in()?))?;
        return Ok(ExitCode::SUCCESS);
    };
    let (scenario, source) = load::scenario(name)?;
    if args.print {
        output::text(&source)?;
        return Ok(ExitCode::SUCCESS);
    }
    args.plot.as_deref().map_or(Ok(()), output::may_write)?;
    let of = Of::new(&scenario, args.guests, args.days, args.seed.map(|seed| seed.0));
    let impossible = |why| remedies::impossible(name, &source, why);
    let span_ns = scenario.check(of.guests.end - of.guests.start, of.days).map_err(impossible)?;
    let simulation = |corrector| Simulation::new(&scenario, corrector, of.seed, span_ns);
    let done = run::run_all(&scenario.disciplines, simulation, of.guests.clone(), threads(args))?;
    let report = SimulateReport::new(&scenario, &of, run::fleets(&done));
    if let Some(path) = &args.plot {
        output::file(path, plot::svg(&report, &done, span_ns, simulation))?;
    }
    if args.shrink && report.broken() > 0 {
        output::text(&load::shrunk(&scenario, &of, &done, simulation)?)?;
        return Ok(ExitCode::FAILURE);
    }
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Csv => output::text(&csv::render(&done))?,
        Format::Text | Format::Markdown => output::text(&text::render(&report, args.format))?,
    }
    if args.format != Format::Json {
        error::note(&text::rate(&of, &done));
    }
    Ok(ended(report.broken(), done.iter().all(|one| one.is_whole)))
}

/// What the program ends with: of a part of the fleet it cannot be said that all held.
fn ended(broken: u64, is_whole: bool) -> ExitCode {
    match (broken, is_whole) {
        (0, true) => ExitCode::SUCCESS,
        (0, false) => ExitCode::from(COULD_NOT),
        _ => ExitCode::FAILURE,
    }
}

fn threads(args: &Args) -> u64 {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    args.threads.unwrap_or(cpus)
}

/// The run of one discipline.
type Fleets = [DisciplineRun];

#[cfg(test)]
mod tests;
