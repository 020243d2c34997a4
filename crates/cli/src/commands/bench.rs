//! `parachron bench`: what reading each clock costs.

mod answer;
mod distribution;
mod each_source;
mod plot;
pub(crate) mod report;
#[cfg(test)]
#[path = "bench/tests/sample.rs"]
mod sample;
mod sources;
pub(crate) mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use inspect::clock_call::Call;
use inspect::measure::{MeasurementPlan, MeasuringSession, PAGE};
use instruments::duration;
use instruments::measurements::Measurements;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::CliError;
use crate::output::progress::TerminalProgress;
use crate::output::{self, Format};
use report::{BenchReport, MachineIdentity};
use sources::report::ClocksReport;

/// Measure what reading each clock costs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time for all calls together, under each clocksource
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    duration: Duration,

    /// Stop earlier, at this many samples of each call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,

    /// Measure only calls with NAME in their name, such as monotonic; repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// List the clock sources, cheapest first, and measure the one in use for 0.2 s
    #[arg(long, conflicts_with_all = ["samples", "only", "each_source", "plot"])]
    list: bool,

    /// With --list: also sources that this machine does not offer, and why
    #[arg(long, requires = "list")]
    all: bool,

    /// With --list: read a captured folder instead of this machine, and measure nothing
    #[arg(long, value_name = "DIR", requires = "list")]
    root: Option<PathBuf>,

    /// Measure under every available clocksource in turn, then restore the first (needs
    /// root)
    #[arg(long)]
    each_source: bool,

    /// Print what --each-source would do, and exit
    #[arg(long, requires = "each_source")]
    dry_run: bool,

    /// Also show each call's spread, and the steps, order and offsets of clocks
    #[arg(long, conflicts_with = "list")]
    verbose: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Also plot the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The JSON of `bench`, or of `--list`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum BenchOutput {
    /// What reading each clock costs.
    Costs(BenchReport),
    /// The clock sources.
    Sources(ClocksReport),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.list {
        return sources::list(args.root.as_deref(), args.all, args.format);
    }
    let plan = plan(args)?;
    if args.dry_run {
        output::text(&each_source::announce(&plan)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runs = if args.each_source {
        each_source::run(&plan)?
    } else {
        let progress = TerminalProgress::new(plan.expected());
        vec![measure_once(plan, &progress)]
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = BenchReport { version, machine: MachineIdentity::this(), runs };
    // If the plot fails the report is still printed, and vice versa.
    let drawn = args.plot.as_ref().map_or(Ok(()), |path| output::file(path, plot::svg(&report)));
    let printed = match args.format {
        Format::Json => output::json(&BenchOutput::Costs(report)),
        Format::Text => output::text(&tables::render(&report, args.verbose)),
    };
    // First: output cut short (`| head`) must not hide it.
    drawn?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// Measures under the clocksource in use.
fn measure_once(plan: MeasurementPlan, progress: &TerminalProgress) -> Measurements {
    let mut session = MeasuringSession::new(plan);
    session.round(1, &|what| progress.doing(what));
    session.finish()
}

/// What to measure under each clocksource.
fn plan(args: &Args) -> Result<MeasurementPlan, CliError> {
    let mut plan = MeasurementPlan::thorough(args.duration);
    plan.samples = args.samples.unwrap_or(u64::MAX);
    if !args.only.is_empty() {
        (plan.calls, plan.page) = only(&args.only)?;
        plan.pairs = 0;
    }
    Ok(plan)
}

/// The calls whose name contains one of `names`, and whether the kvm-clock
/// page is among them.
fn only(names: &[String]) -> Result<(Vec<Call>, bool), CliError> {
    let mut calls = Call::all();
    let matches = |wanted: &str, name: &str| name.to_lowercase().contains(&wanted.to_lowercase());
    for wanted in names {
        let known = calls.iter().map(|call| call.name()).chain(PAGE.map(str::to_owned));
        let known: Vec<String> = known.collect();
        if !known.iter().any(|name| matches(wanted, name)) {
            return Err(CliError::Failed {
                cause: format!("no call has {wanted:?} in its name"),
                remedy: format!("pass --only with part of one of these: {}", known.join(", ")),
            });
        }
    }
    let is_wanted = |name: &str| names.iter().any(|wanted| matches(wanted, name));
    calls.retain(|call| is_wanted(&call.name()));
    Ok((calls, PAGE.iter().any(|name| is_wanted(name))))
}
