//! The report as CSV: one figure per line.

use super::report::LatencyReport;
use crate::output::table::{Cell, Column, ReportTable};

/// The whole report.
pub(super) fn render(report: &LatencyReport) -> String {
    let columns = ["figure", "landmark", "unit", "value"].map(Column::words);
    let mut table = ReportTable::new("", columns);
    let mut add = |figure: &str, landmark: &str, unit: &str, value: f64| {
        let words = [figure, landmark, unit].map(Cell::from);
        table.row(words.into_iter().chain([Cell::figure(value, 0)]));
    };
    let found = &report.latency;
    for figure in &found.figures {
        let (name, ns) = (figure.kind.name(), figure.ns);
        let landmarks = [
            ("min", ns.min),
            ("p50", ns.p50),
            ("p90", ns.p90),
            ("p99", ns.p99),
            ("p99.9", ns.p99_9),
            ("max", ns.max),
        ];
        landmarks.iter().for_each(|(landmark, value)| add(name, landmark, "ns", *value));
        add(name, "samples", "1", ns.samples as f64);
    }
    for share in instruments::latency::shares(&found.delays) {
        let landmark = format!("{} by {}", share.kind.name(), share.cause.name());
        add("delays", &landmark, "1", share.delays as f64);
        add("delays", &landmark, "ns", share.total_ns as f64);
    }
    for load in &found.switches {
        add(&load.load, &format!("{} copies", load.copies), &load.unit, load.per_s);
    }
    if found.no_gap_over_s.is_some() {
        add(instruments::latency::FigureKind::Gap.name(), "samples", "1", 0.0);
    }
    if let Some(stolen) = found.stolen {
        add("steal", "share of all CPU time", "1", stolen.share);
    }
    if let Some(limit) = found.sweep.as_ref().and_then(|sweep| sweep.limit) {
        add("idle gaps", "halt polling ends", "ns", limit.ns);
    }
    for change in report.compared.iter().flat_map(|compared| &compared.figures) {
        for (landmark, pair) in [("p50", change.p50), ("p99", change.p99)] {
            add(change.kind.name(), &format!("{landmark} before"), "ns", pair.before_ns);
            add(change.kind.name(), &format!("{landmark} change"), "1", pair.change);
        }
    }
    table.csv()
}
