//! The report as CSV: one figure or check a line.

use lab::results::Report;

use crate::output::table::{Cell, Column, ReportTable};

pub(super) fn render(report: &Report) -> String {
    let columns = ["experiment", "clock by", "subject", "figure", "unit", "value"];
    let mut table = ReportTable::new("", columns.map(Column::words));
    for outcome in &report.experiments {
        for figure in outcome.figures() {
            let words =
                [outcome.name(), &figure.provider, &figure.subject, &figure.name, figure.unit];
            table.row(words.map(Cell::from).into_iter().chain([Cell::figure(figure.value, 0)]));
        }
        for check in &outcome.checks {
            let words = [outcome.name(), "", &check.name, "check", "", check.verdict.name()];
            table.row(words.map(Cell::from));
        }
    }
    table.csv()
}
