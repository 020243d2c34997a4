//! A run against an earlier one.

use std::path::Path;

use instruments::figures::three_digits;

use super::report::{FigureChange, LatencyReport, RunComparison};
use super::text::short_name;
use crate::error::CliError;
use crate::output::table::{Cell, Column, ReportTable};

/// The largest report that is read: one is some 100 kB.
const BYTES: u64 = 16 << 20;

/// An earlier report.
pub(super) fn read(path: &Path) -> Result<LatencyReport, CliError> {
    let failed = |cause: String| CliError::Failed {
        cause: format!("cannot compare with {}: {cause}", path.display()),
        remedy: "name a file that `parachron latency --format json` wrote".into(),
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > BYTES {
        return Err(failed(format!("it has {size} bytes, at most {BYTES} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// Both runs' figures, side by side.
pub(super) fn table(compared: &RunComparison, now: &LatencyReport) -> ReportTable {
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
    let mut table = ReportTable::new("Compared with the earlier run", columns);
    for FigureChange { kind, p50, p99 } in &compared.figures {
        let cells = [p50, p99].into_iter().flat_map(|pair| {
            let us = |ns: f64| Cell::from(three_digits(ns / 1e3));
            let percent = pair.change * 100.0;
            let change = Cell::from(format!("{percent:+.0} %"));
            [us(pair.before_ns), us(pair.now_ns), change]
        });
        table.row([short_name(*kind).into()].into_iter().chain(cells));
    }
    let percent = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
    table.note(format!(
        "Steal: {:.2} % before, {:.2} % now. One run differs from the next: repeat both before \
         you trust a change of some percent.",
        percent(compared.stolen_share),
        percent(now.latency.cpus.stolen)
    ));
    if compared.machine != now.machine {
        table.note(format!("The earlier run was on another machine: {}", compared.machine.line()));
    }
    table
}

#[cfg(test)]
mod tests {
    use instruments::distribution::Distribution;
    use instruments::latency::{FigureKind, Latency};

    use super::*;

    fn report(kinds: &[FigureKind], scale: f64, before: Option<&LatencyReport>) -> LatencyReport {
        let mut latency = Latency::default();
        for kind in kinds {
            let mut samples = Distribution::new();
            (1..=1000).for_each(|n| samples.record(f64::from(n) * scale));
            latency.add_figure(*kind, &samples);
        }
        LatencyReport::new(latency, before)
    }

    #[test]
    fn a_run_is_compared_and_may_be_compared_with() {
        let before = report(&[FigureKind::TimerWakeUp, FigureKind::Exit], 1000.0, None);
        let kinds = [FigureKind::TimerWakeUp, FigureKind::Ipi];
        let now = report(&kinds, 1500.0, Some(&before));
        let [change] = now.compared.as_ref().unwrap().figures[..] else { panic!("{now:?}") };
        assert_eq!(change.kind, FigureKind::TimerWakeUp);
        assert!((change.p50.change - 0.5).abs() < 0.05, "{change:?}");
        assert!((change.p99.now_ns / change.p99.before_ns - 1.5).abs() < 0.05, "{change:?}");
        let table = table(now.compared.as_ref().unwrap(), &now).text();
        assert!(table.contains("+50 %") || table.contains("+49 %"), "{table}");
        let file = tempfile::NamedTempFile::new().unwrap();
        serde_json::to_writer(&file, &now).unwrap();
        assert_eq!(read(file.path()).unwrap().compared, now.compared);
        serde_json::to_writer(file.reopen().unwrap(), &before).unwrap();
        file.as_file().set_len(serde_json::to_vec(&before).unwrap().len() as u64).unwrap();
        assert_eq!(read(file.path()).unwrap().compared, None);
    }
}
