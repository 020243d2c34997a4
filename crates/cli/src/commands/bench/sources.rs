//! `bench --list`: all clock sources in order of cost. The cost is measured for the source in use;
//! the others are ordered by how they are read.

mod absent;
pub(crate) mod report;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use facts::clocksource::ReadPlace;
use inspect::clock_call::Call;
use inspect::measure::{MeasurementPlan, MeasuringSession};
use inspect::tree::Tree;
use instruments::figures::{count, three_digits, time, whole_time};
use report::{ClocksReport, Rating, Resolution, Source, SourceCost, TrialCalls};

use super::BenchOutput;
use crate::commands::capture::captured;
use crate::error::{COULD_NOT, CliError};
use crate::output::table::{Cell, Column, ReportTable};
use crate::output::{self, Format, number_of, printable};

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
        Format::Text => output::text(&render(&report))?,
    }
    Ok(if nothing { ExitCode::from(COULD_NOT) } else { ExitCode::SUCCESS })
}

/// Renders `report`.
fn render(report: &ClocksReport) -> String {
    let current = report.sources.iter().find(|source| source.current);
    let in_use = current.map_or("an unknown source", |source| &source.name);
    let mut table = ReportTable::with_rows(
        format!("The kernel uses {in_use}. Clock sources, cheapest first"),
        &report.sources,
        [
            (Column::names("source"), &|source| source.name.as_str().into()),
            (Column::names("state"), &|source| state(source).into()),
            (Column::figures("rating", ""), &|source| {
                source.rating.as_ref().map_or_else(Cell::none, rating)
            }),
            (Column::figures("resolution", ""), &|source| {
                source.resolution.as_ref().map_or_else(Cell::none, resolution)
            }),
            (Column::words("read path"), &|source| read_path(source).into()),
            (Column::figures("cost", "ns"), &cost),
        ],
    );
    if table.is_empty() {
        return no_source(report);
    }
    notes(report, &mut table);
    table.text()
}

/// A message instead of an empty table.
fn no_source(report: &ClocksReport) -> String {
    let whys = [report.available.unknown(), report.current.unknown()];
    let mut text = "No clock source is known.\n".to_owned();
    for why in whys.into_iter().flatten() {
        text.push_str(&printable(&why.to_string()));
        text.push('\n');
    }
    text
}

fn state(source: &Source) -> &'static str {
    match (source.current, source.available) {
        (true, _) => "current",
        (false, true) => "available",
        (false, false) => "absent",
    }
}

fn rating(rating: &Rating) -> Cell {
    let Rating { lowest, highest, .. } = rating;
    if lowest == highest {
        Cell::figure(f64::from(*lowest), 0)
    } else {
        format!("{lowest}–{highest}").into()
    }
}

fn resolution(resolution: &Resolution) -> Cell {
    let Resolution { finest_ns, coarsest_ns, .. } = *resolution;
    if finest_ns == coarsest_ns {
        return Cell::from(time_as_known(finest_ns));
    }
    let (finest, coarsest) = (time_as_known(finest_ns), time_as_known(coarsest_ns));
    match (finest.split_once(' '), coarsest.split_once(' ')) {
        // The unit once, where it is the same.
        (Some((number, unit)), Some((_, other))) if unit == other => {
            format!("{number}–{coarsest}").into()
        }
        _ => format!("{finest}–{coarsest}").into(),
    }
}

/// `1 ns`, not `1.00 ns`: a whole number of ns is exact here.
fn time_as_known(ns: f64) -> String {
    if ns == ns.trunc() { whole_time(ns as u64) } else { time(ns) }
}

fn read_path(source: &Source) -> String {
    let path = &source.read_path;
    let place = match path.place {
        ReadPlace::UserSpace => "user space",
        ReadPlace::Kernel => "kernel",
        ReadPlace::Depends => "depends",
        ReadPlace::Unknown => return "unknown".into(),
    };
    let mut text = place.to_owned();
    if let (ReadPlace::Kernel, Some(read)) = (path.place, &path.read) {
        text.push_str(" + ");
        text.push_str(read);
    }
    if path.tsc_exits {
        text.push_str(", RDTSC trapped");
    }
    if path.counted.is_some() {
        text.push_str(", counted");
    }
    text
}

fn cost(source: &Source) -> Cell {
    match &source.cost {
        SourceCost::Measured(cost) => Cell::from(three_digits(cost.ns.median)),
        SourceCost::NotMeasured { .. } => Cell::none(),
    }
}

fn notes(report: &ClocksReport, table: &mut ReportTable) {
    for (what, unknown) in
        [("available", report.available.unknown()), ("current", report.current.unknown())]
    {
        if let Some(why) = unknown {
            table.note(format!("{what}: {why}."));
        }
    }
    for source in &report.sources {
        if let SourceCost::Measured(cost) = &source.cost {
            table.note(format!(
                "cost: {} under {}, median of {} of {} (min {}, p99 {}, max {}).",
                cost.call,
                source.name,
                number_of(cost.samples, "sample"),
                number_of(cost.calls_per_sample, "call"),
                three_digits(cost.ns.min),
                three_digits(cost.ns.p99),
                three_digits(cost.ns.max),
            ));
        }
        if let Some(TrialCalls { calls, entered }) = source.read_path.counted {
            table.note(format!(
                "read path: {} of {} calls entered the kernel under {}; the other paths follow from \
                 the kernel's source code.",
                count(entered),
                count(calls),
                source.name,
            ));
        }
    }
    let mut noted: Vec<&str> = Vec::new();
    for source in &report.sources {
        if let SourceCost::NotMeasured { why } = &source.cost
            && !noted.contains(&why.as_str())
        {
            noted.push(why);
            table.note(format!("–: not measured: {why}."));
        }
    }
    for source in &report.sources {
        if let Some(why) = &source.why_not_available {
            table.note(format!("{}: {why}.", source.name));
        }
    }
}

#[cfg(test)]
mod tests;
