//! The report as CSV: a row per finding; with `--verbose` one per rule.

use doctor::finding::{Diagnosis, Remedy};

use super::text::name_of;
use crate::output::table::{Cell, Column, Table};

/// The report.
pub(super) fn render(diagnosis: &Diagnosis, verbose: bool) -> String {
    let columns = ["severity", "rule", "what", "evidence", "why", "remedies", "source"];
    let mut table = Table::new("", columns.map(Column::words));
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
        table.row(cells.map(Cell::from));
    }
    if verbose {
        for entry in &diagnosis.checked {
            let state = if entry.could_check { "in order" } else { "not checked" };
            let cells = [state, &entry.rule, &entry.outcome, "", "", "", ""];
            table.row(cells.map(Cell::from));
        }
    }
    table.csv()
}

fn remedy(remedy: &Remedy) -> String {
    match &remedy.command {
        Some(command) => format!("{} {command}", remedy.what),
        None => remedy.what.clone(),
    }
}
