//! The last table: one line an experiment.

use lab::results::{Agreement, Drift, Findings, Outcome, Verdict};

use super::report::{LabReport, Tally};
use super::tables::maker;
use crate::output::table::{Cell, Column, Table};
use instruments::figures::{count, three_digits, time};

/// All experiments of a report.
pub(super) fn table(report: &LabReport) -> Table {
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
    for outcome in &report.lab.experiments {
        let tally = Tally::of(outcome);
        table.row([
            name(&outcome.findings).into(),
            tally.passed.to_string().into(),
            tally.failed.to_string().into(),
            tally.not_measured.to_string().into(),
            Cell::figure(outcome.seconds, 1),
            worst(outcome).into(),
        ]);
    }
    for one in &report.not_made {
        let dashes = [Cell::none(), Cell::none(), Cell::none(), Cell::none()];
        let why = format!("could not be made: {}", one.why);
        table.row([one.experiment.as_str().into()].into_iter().chain(dashes).chain([why.into()]));
    }
    table
}

/// An experiment's name.
pub(super) const fn name(findings: &Findings) -> &'static str {
    match findings {
        Findings::Drift(_) => "drift",
        Findings::Updates(_) => "updates",
        Findings::Cost(_) => "cost",
        Findings::Monotonic(_) => "monotonic",
        Findings::Offset(_) => "offset",
        Findings::Restore(_) => "restore",
        Findings::Agreement(_) => "agreement",
        Findings::Conformance => "conformance",
    }
}

/// The figure furthest from what it should be.
fn worst(outcome: &Outcome) -> String {
    match &outcome.findings {
        Findings::Drift(rows) => {
            // The others' readings leave more open than that.
            let sure: Vec<_> = rows.iter().filter(|row| row.uncertainty_ppm <= 200.0).collect();
            let off = |row: &&Drift| row.drift_ppm - row.theory_ppm;
            furthest(&sure, off, |row, ppm| {
                let clock = maker(row.backend, &row.provider);
                format!("{} ppm off theory: {} of {clock}", three_digits(ppm), row.source)
            })
        }
        Findings::Updates(rows) => {
            match rows.iter().filter(|row| row.not_caused.is_some()).count() {
                0 => "–".into(),
                missing => format!("{missing} of {} not caused here", rows.len()),
            }
        }
        Findings::Cost(rows) => furthest(
            rows,
            |row| row.least_ns,
            |row, ns| format!("{} a reading: {}", time(ns), row.source),
        ),
        Findings::Monotonic(rows) => furthest(
            rows,
            |row| row.worst_ns as f64,
            |row, ns| format!("{} back, {} times: {}", time(ns), count(row.backward), row.setting),
        ),
        Findings::Offset(rows) => furthest(
            rows,
            |row| row.offset_ns.median,
            |row, ns| {
                format!("{} off: {} of {}", time(ns), row.source, maker(row.backend, &row.provider))
            },
        ),
        Findings::Restore(rows) => furthest(
            rows,
            |row| (row.seen_s - row.expected_s) * 1e9,
            |row, ns| format!("{} off: {} of {}", time(ns), row.source, row.policy),
        ),
        Findings::Agreement(rows) => {
            let apart = |row: &Agreement| row.apart_ns.max.abs().max(row.apart_ns.min.abs());
            furthest(rows, apart, |row, ns| format!("{} apart: {}", time(ns), row.page))
        }
        Findings::Conformance => {
            let failed = outcome.checks.iter().find(|check| check.verdict == Verdict::Failed);
            failed.map_or("–".into(), |check| check.name.clone())
        }
    }
}

/// What is said of the row whose figure is the largest, either way.
fn furthest<T>(rows: &[T], figure: impl Fn(&T) -> f64, said: impl Fn(&T, f64) -> String) -> String {
    let by_size = |a: &&T, b: &&T| figure(a).abs().total_cmp(&figure(b).abs());
    rows.iter().max_by(by_size).map_or("–".into(), |row| said(row, figure(row)))
}
