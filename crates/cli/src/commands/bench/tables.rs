//! The report as tables: one clocksource, or several side by side.

use instruments::measurements::{CallCost, Granularity, NotMeasured, Order, ReadPath, Throughput};
use instruments::throughput::change;

use super::distribution;
use super::report::{BenchReport, SourceRun, short_name};
use crate::output::table::{Cell, Column, ReportTable};
use instruments::figures::{count, three_digits, time, whole_time};

/// The whole report.
pub(super) fn render(report: &BenchReport) -> String {
    let mut text = format!("{}\n", report.machine.line());
    let mut tables = Vec::new();
    if report.runs.len() > 1 {
        tables.extend(side_by_side(&report.runs));
    }
    for run in &report.runs {
        tables.push(costs(run));
        // For several sources the plot shows it better.
        if report.runs.len() == 1 {
            tables.extend(distribution::table(run));
        }
        tables.extend([
            clocks(run),
            skews(run),
            loads(&report.runs, run),
            missing(&run.measurements.not_measured),
        ]);
    }
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}

/// Costs of the calls under one clocksource.
fn costs(run: &SourceRun) -> ReportTable {
    let title = match &run.measurements.tsc_rate {
        Some(rate) => format!(
            "Cost of a call under clocksource {} ({} {:.3} MHz ± {} ppm)",
            run.source(),
            linux::counter::NAME,
            rate.hz / 1e6,
            three_digits(rate.bound_ppm)
        ),
        None => format!("Cost of a call under clocksource {}", run.source()),
    };
    let ns = |heading| Column::figures(heading, "ns");
    let figure = |value: f64| Cell::from(three_digits(value));
    let mut table = ReportTable::with_rows(
        title,
        &run.measurements.costs,
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
    if let Some(first) = run.measurements.costs.first() {
        table.note(format!(
            "CLOCK_*: clock_gettime of that clock. {} samples each; a sample is the mean of enough \
             calls to last 1 µs. Far out: above the third quartile + 3 interquartile ranges.",
            count(first.samples)
        ));
    }
    let mixed = |cost: &&CallCost| {
        let path = cost.path;
        matches!(path, ReadPath::Counted { entered: 1.., .. }) && !path.is_kernel()
    };
    if let Some(cost) = run.measurements.costs.iter().find(mixed) {
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
fn clocks(run: &SourceRun) -> ReportTable {
    let found = &run.measurements;
    let step = |order: &Order, pick: fn(&Granularity) -> Option<u64>| {
        let granularity = found.granularity.iter().find(|step| step.clock == order.clock);
        granularity.and_then(pick).map_or(Cell::none(), |ns| whole_time(ns).into())
    };
    ReportTable::with_rows(
        "Steps and order of each clock",
        &found.order,
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
fn skews(run: &SourceRun) -> ReportTable {
    ReportTable::with_rows(
        "Offset between the TSCs of two CPUs, by round trips of a token",
        &run.measurements.skews,
        [
            (Column::names("CPUs"), &|skew| format!("{} – {}", skew.cpu_a, skew.cpu_b).into()),
            (Column::figures("offset", ""), &|skew| time(skew.offset_ns).into()),
            (Column::figures("bound", ""), &|skew| time(skew.bound_ns).into()),
            (Column::figures("round trips", ""), &|skew| count(skew.round_trips).into()),
        ],
    )
}

/// Work done per second; for other sources than the first, compared with it.
fn loads(runs: &[SourceRun], run: &SourceRun) -> ReportTable {
    let first = runs.first().filter(|first| *first != run);
    let mut columns = vec![
        Column::words("load"),
        Column::figures("copies", ""),
        Column::figures("per second", ""),
        Column::figures("slowest\nslice", ""),
        Column::figures("fastest\nslice", ""),
    ];
    columns
        .extend(first.map(|first| {
            Column::figures(format!("compared\nwith {}", broken(first.source())), "")
        }));
    let mut table =
        ReportTable::new(format!("Work done under clocksource {}", run.source()), columns);
    for load in &run.throughput {
        let figure = |value: f64| Cell::from(rate(value));
        let (slowest, fastest) = slices(load);
        let mut row = vec![
            load.load.as_str().into(),
            load.copies.to_string().into(),
            figure(load.per_s),
            figure(slowest),
            figure(fastest),
        ];
        row.extend(first.map(|first| compared_with(first, load)));
        table.row(row);
    }
    if let Some(load) = run.throughput.first() {
        let slices = load.slices.len();
        table.note(format!(
            "{slices} slices of {} each. Units: for context switching, round trips through the \
             pipes (UnixBench's loops); for primes, counts of all of them (sysbench's events).",
            time(load.over_s * 1e9 / slices.max(1) as f64)
        ));
    }
    if first.is_some() {
        table.note("±: twice the standard error that the slices of both show.");
    }
    table
}

fn rate(per_s: f64) -> String {
    match per_s {
        small if small < 1000.0 => three_digits(small),
        large => count(large.round() as u64),
    }
}

/// Slowest and fastest slice.
pub(super) fn slices(load: &Throughput) -> (f64, f64) {
    let slowest = load.slices.iter().copied().fold(f64::INFINITY, f64::min);
    (slowest, load.slices.iter().copied().fold(0.0, f64::max))
}

fn compared_with(first: &SourceRun, load: &Throughput) -> Cell {
    let like = first.throughput.iter().find(|other| other.is_like(load));
    like.and_then(|other| change(other, load)).map_or(Cell::none(), |change| {
        let digits = if change.bound_percent < 10.0 { 1 } else { 0 };
        let (percent, bound) = (change.percent, change.bound_percent);
        Cell::from(format!("{percent:+.digits$} ± {bound:.digits$} %"))
    })
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
fn side_by_side(runs: &[SourceRun]) -> [ReportTable; 2] {
    let table = |title: &str, pick: fn(&CallCost) -> f64| {
        let sources = runs.iter().map(|run| Column::figures(broken(run.source()), "ns"));
        let columns = [Column::names("call")].into_iter().chain(sources);
        let mut table = ReportTable::new(title, columns);
        for cost in &runs[0].measurements.costs {
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
