//! A run against an earlier one.

use std::path::Path;

use instruments::figures::three_digits;

use super::report::LatencyReport;
use super::text::short_name;
use crate::error::CliError;
use crate::output::table::{Cell, Column, Table};

/// The largest report that is read: one is some 100 kB.
const BYTES: u64 = 16 << 20;

/// An earlier report.
pub(super) fn read(path: &Path) -> Result<LatencyReport, CliError> {
    let failed = |cause: String| CliError::Failed {
        cause: format!("cannot compare with {}: {cause}", path.display()),
        remedy: "a file written by parachron latency --format json".into(),
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > BYTES {
        return Err(failed(format!("{size} bytes, and at most {BYTES} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// Both runs' figures, side by side.
pub(super) fn table(before: &LatencyReport, now: &LatencyReport) -> Table {
    let figure = |heading| Column::figures(heading, "µs");
    let columns = [
        Column::names("figure"),
        figure("p50\nbefore"),
        figure("now"),
        Column::figures("change", ""),
        figure("p99\nbefore"),
        figure("now"),
        Column::figures("change", ""),
    ];
    let mut table = Table::new("Compared with the earlier run", columns);
    for figure in &now.latency.figures {
        let Some(earlier) = before.latency.figure(figure.kind) else { continue };
        let pairs = [(earlier.ns.p50, figure.ns.p50), (earlier.ns.p99, figure.ns.p99)];
        let cells = pairs.into_iter().flat_map(|(before, now)| {
            let percent = (now / before.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
            let us = |ns: f64| Cell::figure_as(three_digits(ns / 1e3), ns / 1e3);
            [us(before), us(now), Cell::figure_as(format!("{percent:+.0} %"), percent)]
        });
        table.row([short_name(figure.kind).into()].into_iter().chain(cells));
    }
    let share = |report: &LatencyReport| report.latency.stolen.map_or(0.0, |stolen| stolen.share);
    table.note(format!(
        "Steal: {:.2} % before, {:.2} % now. One run differs from the next: repeat both before you \
         trust a change of some percent.",
        share(before) * 100.0,
        share(now) * 100.0
    ));
    if before.machine != now.machine {
        table.note(format!("The earlier run was on another machine: {}", before.machine.line()));
    }
    table
}
