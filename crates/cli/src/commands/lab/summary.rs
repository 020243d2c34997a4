//! The last table: one line for each experiment.

use instruments::figures::{count, three_digits, time};
use lab::results::{Outcome, Report, Tally, Worst};

use crate::output::table::{Cell, Column, Table};

/// All experiments of a report.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new(
        "Summary",
        [
            Column::names("experiment"),
            Column::figures("passed", ""),
            Column::figures("failed", ""),
            Column::figures("not\nmeasured", ""),
            Column::figures("took", "s"),
            Column::words("worst figure"),
        ],
    );
    for outcome in &report.experiments {
        let tally = Tally::of(outcome);
        table.row([
            outcome.name().into(),
            tally.passed.to_string().into(),
            tally.failed.to_string().into(),
            tally.not_measured.to_string().into(),
            Cell::figure(outcome.seconds, 1),
            worst(outcome).into(),
        ]);
    }
    for one in &report.not_run {
        let dashes = [Cell::none(), Cell::none(), Cell::none(), Cell::none()];
        let why = format!("could not run: {}", one.why);
        table.row([one.experiment.as_str().into()].into_iter().chain(dashes).chain([why.into()]));
    }
    table
}

/// The figure furthest from what it should be.
fn worst(outcome: &Outcome) -> String {
    match outcome.worst() {
        None => "–".into(),
        Some(Worst::Drift(row)) => {
            let clock = row.backend.maker(&row.provider);
            format!("{} ppm from theory: {clock} {}", three_digits(row.error_ppm()), row.source)
        }
        Some(Worst::NotCaused(rows, all)) => format!("{rows} of {all} not caused here"),
        Some(Worst::Cost(row)) => format!("{} a reading: {}", time(row.least_ns), row.source),
        Some(Worst::Monotonic(row)) => {
            let (step, times) = (time(row.worst_ns as f64), count(row.backward));
            format!("{step} backward, {times} times: {}", row.setting)
        }
        Some(Worst::Offset(row)) => {
            let clock = row.backend.maker(&row.provider);
            format!("{} offset: {clock} {}", time(row.offset_ns.median), row.source)
        }
        Some(Worst::Restore(row)) => {
            format!("{} error: {}, {}", time(row.error_s() * 1e9), row.source, row.policy)
        }
        Some(Worst::Agreement(row)) => {
            format!("{} difference: {}", time(row.worst_ns()), row.page)
        }
        Some(Worst::Failed(name)) => name.to_owned(),
    }
}
