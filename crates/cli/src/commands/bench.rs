//! `parachron bench`: what reading each clock costs.

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
use instruments::figures::{three_digits, time, whole_time};
use instruments::measurements::{CallCost, Measurements, ReadPath, TRAPPED_RDTSC_NS};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::bench::report::{BenchReport, MachineIdentity, short_name, source_name};
use crate::commands::bench::sources::report::ClocksReport;
use crate::error::CliError;
use crate::output::TerminalProgress;
use crate::output::table::{Column, ReportTable};
use crate::output::{self, Format, number_of};

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

/// Characters a histogram is wide.
const WIDTH: usize = 52;

/// Heights, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A logarithmic axis of times.
struct HistogramAxis {
    from_ns: f64,
    octaves: f64,
}

impl HistogramAxis {
    /// One that spans all samples of `costs`.
    fn over(costs: &[CallCost]) -> Option<Self> {
        let edges = || costs.iter().flat_map(|cost| &cost.histogram).map(|bin| bin.0);
        let from_ns = edges().filter(|edge| *edge > 0.0).min_by(f64::total_cmp)?;
        let to_ns = edges().max_by(f64::total_cmp)?;
        Some(Self { from_ns, octaves: (to_ns / from_ns).log2().max(1.0) })
    }

    /// The column that shows `ns`.
    fn column(&self, ns: f64) -> usize {
        let share = (ns / self.from_ns).log2().max(0.0) / self.octaves;
        ((share * WIDTH as f64) as usize).min(WIDTH - 1)
    }

    /// `10 ns`, `100 ns` and so on, each at its column.
    fn labels(&self) -> String {
        let mut line = String::new();
        let first = self.from_ns.log10().ceil() as i32;
        let last = (self.from_ns * self.octaves.exp2()).log10().floor() as i32;
        for power in first..=last {
            let ns = 10f64.powi(power);
            let label = format!("╷{}", whole_time(ns.round().max(1.0) as u64));
            let (used, column) = (line.chars().count(), self.column(ns));
            if ns >= 1.0 && column >= used && column + label.chars().count() <= WIDTH {
                line.extend(std::iter::repeat_n(' ', column - used));
                line.push_str(&label);
            }
        }
        line
    }

    /// `cost`'s samples as bars, by the logarithm of their number, so that few
    /// outliers still show.
    fn bars(&self, cost: &CallCost) -> String {
        let mut columns = [0u64; WIDTH];
        for (edge, samples) in &cost.histogram {
            columns[self.column(*edge)] += samples;
        }
        let height = |samples: u64| ((samples + 1) as f64).ln();
        let most = height(columns.iter().copied().max().unwrap_or(0));
        let bar = |samples: u64| match samples {
            0 => ' ',
            _ => BARS[((height(samples) / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        };
        columns.into_iter().map(bar).collect::<String>().trim_end().to_owned()
    }
}

/// The histograms of `run`'s costs.
fn distribution_table(run: &Measurements) -> Option<ReportTable> {
    let costs = &run.costs;
    let axis = HistogramAxis::over(costs)?;
    let columns = [Column::names("call"), Column::names(axis.labels())];
    let mut table = ReportTable::new("Samples by cost (both axes logarithmic)", columns);
    for cost in costs {
        table.row([short_name(&cost.call).into(), axis.bars(cost).into()]);
    }
    Some(table)
}

/// The call that programs make most.
const USUAL: &str = "clock_gettime(CLOCK_MONOTONIC)";
/// A read through the vDSO is an ordered read of the counter and some arithmetic: above this
/// multiple of the bare instruction something else costs time.
const FAST_RATIO: f64 = 4.0;

/// One sentence on the cost, and one for each source under which a clock went backward.
fn sentences(report: &BenchReport) -> String {
    let usual = |run: &Measurements| run.cost(USUAL).map(|cost| cost.ns.median);
    let measured = report.runs.iter().filter(|run| usual(run).is_some());
    let cheapest = measured
        .min_by(|a, b| usual(a).unwrap_or(f64::MAX).total_cmp(&usual(b).unwrap_or(f64::MAX)));
    let mut text = match cheapest.and_then(|run| run.cost(USUAL).map(|cost| (run, cost))) {
        Some((run, cost)) => cost_sentence(run, cost, report.runs.len() > 1),
        None => "CLOCK_MONOTONIC was not measured.".to_owned(),
    };
    for run in &report.runs {
        let backward = run.order.iter().filter(|order| order.backward > 0);
        let clocks: Vec<String> = backward
            .map(|order| {
                let times = number_of(order.backward, "time");
                format!("{} {times}, by up to {}", order.clock, time(order.largest_backward_ns))
            })
            .collect();
        if !clocks.is_empty() {
            let source = source_name(run);
            text.push_str(&format!(" Time went backward under {source}: {}.", clocks.join("; ")));
        }
    }
    text
}

fn cost_sentence(run: &Measurements, cost: &CallCost, is_cheapest: bool) -> String {
    let ns = three_digits(cost.ns.median);
    let cheapest = format!(" under {}, the cheapest source", source_name(run));
    let rank = if is_cheapest { cheapest.as_str() } else { "" };
    let bare = run.cost("rdtsc").map(|bare| bare.ns.median);
    let judgement = match (cost.path, bare) {
        (ReadPath::Counted { entered: 1.., .. }, _) => {
            "; it enters the kernel, so it is slow: run `parachron doctor`"
        }
        (_, Some(bare)) if bare > TRAPPED_RDTSC_NS => {
            "; the hypervisor emulates the counter's read: run `parachron doctor`"
        }
        (_, Some(bare)) if cost.ns.median <= FAST_RATIO * bare => ": as fast as this CPU allows",
        (_, Some(_)) => ": slow beside the counter: run `parachron doctor`",
        _ => "",
    };
    let way = match cost.path {
        ReadPath::Counted { entered: 0, .. } => " through the vDSO",
        _ => "",
    };
    format!("CLOCK_MONOTONIC takes {ns} ns{way}{rank}{judgement}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::sample::{report, run, three_sources};

    #[test]
    fn the_answer_names_the_cost_the_way_and_the_remedy() {
        let fast = report(vec![run("tsc", 27.1)]);
        let text = sentences(&fast);
        assert!(text.starts_with("CLOCK_MONOTONIC takes 27.1 ns"), "{text}");
        let mut entering = fast.clone();
        for cost in &mut entering.runs[0].costs {
            cost.path = ReadPath::Counted { calls: 1000, entered: 1000 };
        }
        assert!(sentences(&entering).contains("so it is slow: run `parachron doctor`."));
        let mut trapped = fast.clone();
        for cost in &mut trapped.runs[0].costs {
            cost.ns.median = 30_000.0;
        }
        assert!(sentences(&trapped).contains("the hypervisor emulates the counter's read: run"));
        let mut backward = fast;
        backward.runs[0].order[0].backward = 2;
        backward.runs[0].order[0].largest_backward_ns = 70.0;
        let text = sentences(&backward);
        assert!(text.contains(" Time went backward under tsc: "), "{text}");
        assert!(text.contains(" 2 times, by up to 70.0 ns"), "{text}");
        assert!(sentences(&three_sources()).contains(" under tsc, the cheapest source"));
    }
}
