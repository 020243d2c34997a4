//! The report as tables: one clocksource, or several side by side.

use instruments::measurements::{
    CallCost, Granularity, Measurements, NotMeasured, Order, ReadPath,
};

use super::report::{BenchReport, short_name, source_name};
use crate::commands::bench;
use crate::output::number_of;
use crate::output::table::{Cell, Column, ReportTable, width, wrap};
use instruments::figures::{count, three_digits, time, whole_time};

/// The answer and the costs; with `verbose` also their distribution, steps, order and skew.
pub(super) fn render(report: &BenchReport, verbose: bool) -> String {
    let answer = wrap(&bench::sentences(report), width());
    let mut text = format!("{answer}\n{}\n", report.machine.line());
    let mut tables = Vec::new();
    if report.runs.len() > 1 {
        tables.extend(side_by_side(&report.runs));
    }
    for run in &report.runs {
        let mut costs = costs(run, verbose);
        if verbose {
            tables.push(costs);
            // For several sources the plot shows it better.
            if report.runs.len() == 1 {
                tables.extend(bench::distribution_table(run));
            }
            tables.extend([clocks(run), skews(run)]);
        } else {
            costs.note("Add --verbose for spread, steps, order and offsets between CPUs.");
            tables.push(costs);
        }
        tables.push(missing(&run.not_measured));
    }
    let shown = tables.iter().filter(|table| !table.is_empty()).map(ReportTable::text);
    text.push_str(&shown.collect::<Vec<_>>().join("\n"));
    text
}

/// Costs of the calls under one clocksource.
fn costs(run: &Measurements, verbose: bool) -> ReportTable {
    let title = match &run.tsc_rate {
        Some(rate) => format!(
            "Cost of a call under clocksource {} ({} {:.3} MHz ± {} ppm)",
            source_name(run),
            linux::counter::NAME,
            rate.hz / 1e6,
            three_digits(rate.bound_ppm)
        ),
        None => format!("Cost of a call under clocksource {}", source_name(run)),
    };
    let ns = |heading| Column::figures(heading, "ns");
    let figure = |value: f64| Cell::from(three_digits(value));
    let mut table = ReportTable::with_rows(
        title,
        &run.costs,
        [
            (Column::names("call"), &|cost| short_name(&cost.call).into()),
            (ns("median"), &|cost| figure(cost.ns.median)),
            (ns("min"), &|cost| figure(cost.ns.min)),
            (ns("p99"), &|cost| figure(cost.ns.p99)),
            (ns("max"), &|cost| figure(cost.ns.max)),
            (Column::figures("median", "cycles"), &|cost| {
                cost.cycles.map_or(Cell::none(), |cycles| figure(cycles.median))
            }),
            (Column::figures("far\nout", ""), &|cost| {
                let outliers = 100.0 * cost.outliers as f64 / cost.samples.max(1) as f64;
                Cell::from(format!("{outliers:.1} %"))
            }),
            (Column::names("served\nby"), &|cost| served_by(cost.path).into()),
        ],
    );
    if let Some(first) = run.costs.first().filter(|_| verbose) {
        table.note(format!(
            "CLOCK_*: clock_gettime of that clock. {} each; a sample is the mean of enough \
             calls to last 1 µs. Far out: above the third quartile + 3 interquartile ranges.",
            number_of(first.samples, "sample")
        ));
    }
    let mixed = |cost: &&CallCost| {
        let path = cost.path;
        matches!(path, ReadPath::Counted { entered: 1.., .. }) && !path.is_kernel()
    };
    if let Some(cost) = run.costs.iter().find(mixed) {
        table.note(format!(
            "{}: that share of the trial calls entered the kernel; the vDSO served the rest.",
            served_by(cost.path)
        ));
    }
    table
}

/// What serves the call: one word where all trials agree.
pub(super) fn served_by(path: ReadPath) -> String {
    match path {
        ReadPath::Instruction => "CPU".into(),
        ReadPath::Counted { entered: 0, .. } => "vDSO".into(),
        ReadPath::Counted { .. } if path.is_kernel() => "kernel".into(),
        ReadPath::Counted { calls, entered } => {
            // Some, but not all: never rounded to none or all.
            let percent = 100.0 * entered as f64 / calls as f64;
            format!("k {} %", percent.round().clamp(1.0, 99.0))
        }
        ReadPath::NotCounted => "?".into(),
    }
}

/// How each clock advances.
fn clocks(run: &Measurements) -> ReportTable {
    let step = |order: &Order, pick: fn(&Granularity) -> Option<u64>| {
        let granularity = run.granularity.iter().find(|step| step.clock == order.clock);
        granularity.and_then(pick).map_or(Cell::none(), |ns| whole_time(ns).into())
    };
    ReportTable::with_rows(
        "Steps and order of each clock",
        &run.order,
        [
            (Column::names("clock"), &|order| order.clock.as_str().into()),
            (Column::figures("step\nobserved", ""), &|order| {
                step(order, |step| step.smallest_step_ns)
            }),
            (Column::figures("claimed", ""), &|order| step(order, |step| step.claimed_ns)),
            (Column::figures("readings\ncompared", ""), &|order| count(order.readings).into()),
            (Column::figures("backward", ""), &|order| count(order.backward).into()),
            (Column::figures("largest\nbackward", ""), &|order| match order.backward {
                0 => Cell::none(),
                _ => time(order.largest_backward_ns).into(),
            }),
        ],
    )
}

/// TSCs against each other.
fn skews(run: &Measurements) -> ReportTable {
    ReportTable::with_rows(
        "Offset between the TSCs of two CPUs, by round trips of a token",
        &run.skews,
        [
            (Column::names("CPUs"), &|skew| format!("{} – {}", skew.cpu_a, skew.cpu_b).into()),
            (Column::figures("offset", ""), &|skew| time(skew.offset_ns).into()),
            (Column::figures("bound", ""), &|skew| time(skew.bound_ns).into()),
            (Column::figures("round trips", ""), &|skew| count(skew.round_trips).into()),
        ],
    )
}

/// What could not be measured.
pub(crate) fn missing(not_measured: &[NotMeasured]) -> ReportTable {
    ReportTable::with_rows(
        "",
        not_measured,
        [
            (Column::names("not measured"), &|missing| missing.what.as_str().into()),
            (Column::words("reason"), &|missing| missing.why.as_str().into()),
        ],
    )
}

/// Median and p99 of every call, a column for each source.
fn side_by_side(runs: &[Measurements]) -> [ReportTable; 2] {
    let table = |title: &str, pick: fn(&CallCost) -> f64| {
        let sources = runs.iter().map(|run| Column::figures(broken(source_name(run)), "ns"));
        let columns = [Column::names("call")].into_iter().chain(sources);
        let mut table = ReportTable::new(title, columns);
        for cost in &runs[0].costs {
            let cells = runs.iter().map(|run| match run.cost(&cost.call) {
                Some(cost) if matches!(cost.path, ReadPath::Counted { entered: 1.., .. }) => {
                    Cell::from(format!("{} k", three_digits(pick(cost))))
                }
                Some(cost) => Cell::from(format!("{}  ", three_digits(pick(cost)))),
                None => Cell::none(),
            });
            table.row([short_name(&cost.call).into()].into_iter().chain(cells));
        }
        table
    };
    let mut median = table("Cost of a call by clocksource, median", |cost| cost.ns.median);
    median.note("k: entered the kernel in at least some trial calls.");
    [median, table("Cost of a call by clocksource, 99th percentile", |cost| cost.ns.p99)]
}

/// A long name in lines, as a heading: `hyperv_clocksource_tsc_page`.
fn broken(source: &str) -> String {
    if source.chars().count() <= 12 { source.into() } else { source.replace('_', "_\n") }
}

#[cfg(test)]
mod tests;
