//! The report as CSV: a row per finding; with `--verbose` one per rule.

use doctor::finding::{Diagnosis, Remedy};
use doctor::fleet::FleetReport;
use doctor::report_text::name_of;

use crate::output::table::{Cell, Column, ReportTable};

const COLUMNS: [&str; 7] = ["severity", "rule", "what", "evidence", "why", "remedies", "source"];

/// The report.
pub(super) fn render(diagnosis: &Diagnosis, verbose: bool) -> String {
    let mut table = ReportTable::new("", COLUMNS.map(Column::words));
    for row in rows(diagnosis, verbose) {
        table.row(row);
    }
    table.csv()
}

/// The reports of several machines, each row with its machine first.
pub(super) fn render_fleet(fleet: &FleetReport, verbose: bool) -> String {
    let columns = ["machine"].into_iter().chain(COLUMNS).map(Column::words);
    let mut table = ReportTable::new("", columns);
    for report in &fleet.machines {
        for row in rows(&report.diagnosis, verbose) {
            let machine = Cell::from(report.origin.name().to_owned());
            table.row([machine].into_iter().chain(row));
        }
    }
    table.csv()
}

/// A row per finding; with `verbose` one per rule.
fn rows(diagnosis: &Diagnosis, verbose: bool) -> Vec<[Cell; 7]> {
    let mut rows = Vec::new();
    for finding in &diagnosis.findings {
        let remedies: Vec<String> = finding.remedies.iter().map(remedy).collect();
        let cells = [
            name_of(finding.severity).to_lowercase(),
            finding.rule.clone(),
            finding.what.clone(),
            finding.evidence.join("; "),
            finding.why.clone(),
            remedies.join("; "),
            finding.source.clone(),
        ];
        rows.push(cells.map(Cell::from));
    }
    if verbose {
        for entry in &diagnosis.checked {
            let state = if entry.state == doctor::finding::CheckState::NotChecked {
                "not checked"
            } else {
                "in order"
            };
            let cells = [state, &entry.rule, &entry.outcome, "", "", "", ""];
            rows.push(cells.map(Cell::from));
        }
    }
    rows
}

fn remedy(remedy: &Remedy) -> String {
    match &remedy.command {
        Some(command) => format!("{} {command}", remedy.what),
        None => remedy.what.clone(),
    }
}
