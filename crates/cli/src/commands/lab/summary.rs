//! The last table: one line for each experiment.

use instruments::figures::{count, three_digits, time};
use lab::results::{
    Agreement, CheckTally, Contention, DriftRow, ExperimentOutcome, Findings, Report, Restore,
    TicksRow, Verdict,
};

use crate::output::table::{Cell, Column, ReportTable};

/// All experiments of a report.
pub(super) fn table(report: &Report) -> ReportTable {
    let mut table = ReportTable::new(
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
        let tally = CheckTally::from_outcome(outcome);
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

/// Drifts less certain than this are left out.
const CERTAIN_PPM: f64 = 200.0;

/// The figure furthest from what it should be.
fn worst(outcome: &ExperimentOutcome) -> String {
    let worst = match &outcome.findings {
        Findings::Drift(rows) => {
            let certain = rows.iter().filter(|row| row.uncertainty_ppm <= CERTAIN_PPM);
            largest(certain, DriftRow::error_ppm).map(|row| {
                let clock = row.backend.label(&row.provider);
                format!("{} ppm from theory: {clock} {}", three_digits(row.error_ppm()), row.source)
            })
        }
        Findings::Updates(rows) => {
            let not_caused = rows.iter().filter(|row| row.not_caused.is_some()).count();
            (not_caused > 0).then(|| format!("{not_caused} of {} not caused here", rows.len()))
        }
        Findings::Cost(rows) => largest(rows, |row| row.least_ns)
            .map(|row| format!("{} a reading: {}", time(row.least_ns), row.source)),
        Findings::Monotonic(rows) => largest(rows, |row| row.worst_ns as f64).map(|row| {
            let (step, times) = (time(row.worst_ns as f64), count(row.backward));
            format!("{step} backward, {times} times: {}", row.setting)
        }),
        Findings::Offset(rows) => largest(rows, |row| row.offset_ns.median).map(|row| {
            let clock = row.backend.label(&row.provider);
            format!("{} offset: {clock} {}", time(row.offset_ns.median), row.source)
        }),
        Findings::Restore(rows) => largest(rows, Restore::error_s).map(|row| {
            format!("{} error: {}, {}", time(row.error_s() * 1e9), row.source, row.policy)
        }),
        Findings::Ticks(rows) => largest(rows, |row: &TicksRow| row.behind_s)
            .map(|row| format!("{} behind: {}", time(row.behind_s * 1e9), row.policy)),
        Findings::Locks(rows) => largest(rows, slowest)
            .map(|row| format!("{} a hand-over: {}", time(slowest(row)), row.lock)),
        Findings::Network(rows) => largest(rows, |row| row.p90_ns)
            .map(|row| format!("{} a packet, p90: {}", time(row.p90_ns), row.mode)),
        Findings::Agreement(rows) => largest(rows, Agreement::worst_ns)
            .map(|row| format!("{} difference: {}", time(row.worst_ns()), row.page)),
        Findings::Linux(rows) => largest(rows, |row| row.rate_ppm.unwrap_or(0.0)).map(|row| {
            let rate = three_digits(row.rate_ppm.unwrap_or(0.0));
            format!("{rate} ppm: {}", row.backend.label(&row.provider))
        }),
        Findings::Conformance => {
            let failed = outcome.checks.iter().find(|check| check.verdict == Verdict::Failed);
            failed.map(|check| check.name.clone())
        }
    };
    worst.unwrap_or_else(|| "–".into())
}

/// The slowest hand-overs of a lock, ns.
fn slowest(row: &Contention) -> f64 {
    row.handover_ns.map_or(0.0, |spread| spread.p99)
}

/// The row with the largest figure, either way; the last of equal ones.
fn largest<'r, T>(
    rows: impl IntoIterator<Item = &'r T>,
    figure: impl Fn(&T) -> f64,
) -> Option<&'r T> {
    rows.into_iter().max_by(|a, b| figure(a).abs().total_cmp(&figure(b).abs()))
}
