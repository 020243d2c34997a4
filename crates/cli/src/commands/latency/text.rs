//! The report for people: figures, then causes as the doctor reports them.

use doctor::report_text::{self, name_of};
use instruments::figures::{count, three_digits, time};
use instruments::latency::{FigureKind, unixbench_index};

use super::report::LatencyReport;
use crate::commands::bench::tables::missing;
use crate::commands::doctor::markdown;
use crate::output::table::{Cell, Column, ReportTable};
use crate::output::{Format, screen};

/// The whole report in `format`, which is text or Markdown.
pub(super) fn render(report: &LatencyReport, format: Format, colours: bool) -> String {
    let mut text = format!("{}\n", report.machine.line());
    let tables = [figures(report), switches(report), missing(&report.latency.not_measured)];
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(&table.render(format));
    }
    text.push_str(&match format {
        Format::Markdown => report.findings.iter().map(markdown::finding).collect(),
        _ => report_text::findings(&report.findings, screen(colours)),
    });
    text
}

/// A screen: the figures, and each cause in a line.
pub(super) fn summary(report: &LatencyReport) -> String {
    let mut text = figures(report).text();
    for finding in &report.findings {
        text.push_str(&format!("{}: {}\n", name_of(finding.severity), finding.what));
    }
    text
}

/// The figures, a row each.
fn figures(report: &LatencyReport) -> ReportTable {
    let found = &report.latency;
    let figure = |heading| Column::figures(heading, "µs");
    let landmarks = ["min", "p50", "p90", "p99", "p99.9", "max"].map(figure);
    let columns = [Column::names("figure")].into_iter().chain(landmarks);
    let columns = columns.chain([Column::figures("samples", "")]);
    let mut table = ReportTable::new(format!("Latency over {}", time(found.over_s * 1e9)), columns);
    for figure in &found.figures {
        let ns = figure.ns;
        let cells = [ns.min, ns.p50, ns.p90, ns.p99, ns.p99_9, ns.max]
            .map(|ns| Cell::figure_as(three_digits(ns / 1e3), ns / 1e3));
        let name = Cell::from(short_name(figure.kind));
        table.row([name].into_iter().chain(cells).chain([count(ns.samples).into()]));
    }
    if let Some(looked_s) = found.no_gap_over_s {
        table.note(format!("Gap in a loop: none in {}.", time(looked_s * 1e9)));
    }
    if let Some(stolen) = found.stolen {
        table.note(format!("Steal: {:.2} % of all CPU time (/proc/stat).", stolen.share * 100.0));
    }
    match found.sweep.as_ref().map(|sweep| sweep.limit) {
        Some(Some(limit)) => table.note(format!(
            "A wake-up after an idle gap of up to {} is {} late, after a longer gap {}: halt \
             polling ends there (± 25 %).",
            time(limit.ns),
            time(limit.quick_ns),
            time(limit.slow_ns)
        )),
        Some(None) => table.note("Wake-ups after idle gaps of 10 µs to 2 ms are equally late."),
        None => {}
    }
    if let Some(answers) = &found.answers {
        table.note(format!(
            "{}: {} of {} requests answered, {} answers late, {} foreign.",
            answers.peer, answers.answered, answers.sent, answers.late, answers.foreign
        ));
    }
    table
}

/// Names that leave room for eight figures.
pub(super) fn short_name(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::TimerWakeUpAwake => "– CPU kept awake",
        FigureKind::TimerWakeUpInheritedSlack => "– inherited slack",
        FigureKind::CrossCpuWakeUp => "wake-up by CPU",
        FigureKind::Gap => "gap in a loop",
        FigureKind::PipeOneCpu => "pipe, one CPU",
        FigureKind::PipeAcrossCpus => "pipe, two CPUs",
        FigureKind::Echo => "echo",
        kind => kind.name(),
    }
}

/// Pipe-based context switching as UnixBench counts it.
fn switches(report: &LatencyReport) -> ReportTable {
    let mut table = ReportTable::new(
        "Pipe-based context switching",
        [
            Column::words("where"),
            Column::figures("loops/s", ""),
            Column::figures("UnixBench's\nindex", ""),
        ],
    );
    let found = &report.latency;
    let mut add = |place: String, per_s: f64| {
        let cells = [per_s, unixbench_index(per_s)].map(|value| Cell::figure(value, 0));
        table.row([place.into()].into_iter().chain(cells));
    };
    let placed =
        [("on one CPU", FigureKind::PipeOneCpu), ("across CPUs", FigureKind::PipeAcrossCpus)];
    for (place, kind) in placed {
        if let Some(per_s) = found.loops_per_s(kind) {
            add(place.into(), per_s);
        }
    }
    for load in &found.switches {
        let copies = if load.copies == 1 { "copy" } else { "copies" };
        add(format!("{} {copies}, placed by the scheduler", load.copies), load.per_s);
    }
    table
}
