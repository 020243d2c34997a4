//! `parachron bench`: what reading each clock costs, and what else a clock
//! source costs.

mod distribution;
mod each_source;
mod plot;
pub(crate) mod report;
#[cfg(test)]
#[path = "bench/tests/sample.rs"]
mod sample;
pub(crate) mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use inspect::clock_call::Call;
use inspect::measure::loads::{self, MeasuringLoad};
use inspect::measure::{self, MeasurementPlan, PAGE};
use instruments::duration;
use instruments::measurements::{Measurements, Throughput};

use crate::commands::helpers::{self, Helper};
use crate::error::CliError;
use crate::output::progress::TerminalProgress;
use crate::output::{self, Format};
use report::{BenchReport, MachineIdentity, SourceRun, cpu_count};

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

    /// Also count pipe-based context switches, as UnixBench does
    #[arg(long)]
    switches: bool,

    /// Also count primes, as sysbench does
    #[arg(long)]
    primes: bool,

    /// Time for each load, with one copy and with one per CPU
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    load_duration: Duration,

    /// Measure under every available clocksource in turn, then restore the first (needs
    /// root)
    #[arg(long)]
    each_source: bool,

    /// Print what --each-source would do, and exit
    #[arg(long, requires = "each_source")]
    dry_run: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Also plot the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let bench = Bench::new(args)?;
    if args.dry_run {
        output::text(&each_source::announce(&bench)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runs = if args.each_source {
        each_source::run(&bench)?
    } else {
        let progress = TerminalProgress::new(bench.expected());
        let mut session = SourceSession::new(&bench);
        session.round(1, &|what| progress.doing(what));
        vec![session.finish()]
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = BenchReport { version, machine: MachineIdentity::this(), runs };
    // If the plot fails the report is still printed, and vice versa.
    let drawn = args.plot.as_ref().map_or(Ok(()), |path| output::file(path, plot::svg(&report)));
    let printed = match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::text(&tables::render(&report)),
    };
    // First: output cut short (`| head`) must not hide it.
    drawn?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// What to measure.
struct Bench {
    plan: MeasurementPlan,
    loads: Vec<MeasuringLoad>,
    load_length: Duration,
    cpus: u32,
}

impl Bench {
    fn new(args: &Args) -> Result<Self, CliError> {
        let mut plan = MeasurementPlan::thorough(args.duration);
        plan.samples = args.samples.unwrap_or(u64::MAX);
        if !args.only.is_empty() {
            (plan.calls, plan.page) = only(&args.only)?;
            plan.pairs = 0;
        }
        let mut loads = Vec::new();
        loads.extend(
            args.switches
                .then_some(MeasuringLoad::Switches(|| helpers::command(&Helper::PipeEcho))),
        );
        loads.extend(args.primes.then_some(MeasuringLoad::Primes));
        Ok(Self { plan, loads, load_length: args.load_duration, cpus: cpu_count() })
    }

    /// How long one clocksource should take.
    fn expected(&self) -> Duration {
        let rounds = self.loads.len() * if self.cpus > 1 { 2 } else { 1 };
        self.plan.expected() + self.load_length * u32::try_from(rounds).unwrap_or(u32::MAX)
    }
}

/// The measurement under one clocksource, in rounds.
struct SourceSession<'b> {
    bench: &'b Bench,
    clocks: measure::MeasuringSession,
    throughput: Vec<Throughput>,
    /// Loads that could not be measured.
    missing: Measurements,
}

impl<'b> SourceSession<'b> {
    fn new(bench: &'b Bench) -> Self {
        Self {
            bench,
            clocks: measure::MeasuringSession::new(bench.plan.clone()),
            throughput: Vec::new(),
            missing: Measurements::default(),
        }
    }

    /// One round of `rounds`, under the source in use.
    fn round(&mut self, rounds: u32, progress: &dyn Fn(&str)) {
        self.clocks.round(rounds, progress);
        let (cpus, lengths) = (self.bench.cpus, (rounds, self.bench.load_length));
        for &load in &self.bench.loads {
            let (found, missing) = (&mut self.throughput, &mut self.missing);
            loads::round(load, cpus, lengths, found, missing, progress);
        }
    }

    fn finish(self) -> SourceRun {
        let mut measurements = self.clocks.finish();
        measurements.not_measured.extend(self.missing.not_measured);
        SourceRun { measurements, throughput: self.throughput }
    }
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
