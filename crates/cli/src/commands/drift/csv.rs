//! The result as rows for a program: one a clock and reference, seconds and
//! ppm, empty where there is no figure.

use inspect::comparison::PairReport;

use super::report::DriftReport;
use crate::output::table::{Cell, Column, ReportTable};

/// The rows, with a heading.
pub(super) fn render(report: &DriftReport) -> String {
    let figures = [
        ("readings", ""),
        ("kept", ""),
        ("span", "s"),
        ("frequency", "ppm"),
        ("frequency from", "ppm"),
        ("frequency to", "ppm"),
        ("per day", "s"),
        ("five minutes", "s"),
        ("offset", "s"),
        ("offset bound", "s"),
        ("moved", "s"),
        ("steps", ""),
    ];
    let names = ["clock", "reference"].map(Column::names);
    let figures = figures.map(|(heading, unit)| Column::figures(heading, unit));
    let mut table = ReportTable::new("", names.into_iter().chain(figures));
    for pair in &report.pairs {
        table.row(row(pair));
    }
    table.csv()
}

fn row(pair: &PairReport) -> Vec<Cell> {
    let drift = &pair.drift;
    let interval = drift.frequency.and_then(|frequency| frequency.interval_ppm);
    let figures = [
        Some(drift.readings as f64),
        Some(drift.kept as f64),
        Some(drift.span_s),
        drift.frequency.map(|frequency| frequency.ppm),
        interval.map(|interval| interval.0),
        interval.map(|interval| interval.1),
        drift.frequency.map(|frequency| frequency.per_day_s),
        drift.frequency.map(|frequency| frequency.in_300_s),
        Some(drift.offset.ns / 1e9).filter(|_| pair.offset_is_error),
        Some(drift.offset.bound_ns / 1e9),
        Some(drift.offset.moved_ns / 1e9),
        Some(drift.steps.len() as f64),
    ];
    let names = [pair.clock.name().into(), pair.reference.clone().into()];
    let figures = figures.map(|figure| figure.map_or(Cell::none(), |value| Cell::figure(value, 6)));
    names.into_iter().chain(figures).collect()
}
