//! `parachron latency`: how late this machine runs programs.

pub(crate) mod report;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use inspect::latency::{EchoPeer, LatencyPlan};
use instruments::duration;
use instruments::figures::three_digits;
use instruments::latency::FigureKind;

use crate::commands::helpers::{self, Helper};
use crate::commands::latency::report::{FigureChange, LatencyReport, RunComparison};
use crate::commands::latency::text::short_name;
use crate::error::CliError;
use crate::output::TerminalProgress;
use crate::output::table::{Cell, Column, ReportTable};
use crate::output::{self, Format};

/// Longest run: what is measured disturbs others.
const LONGEST: Duration = Duration::from_secs(27);

/// Measure how late this machine runs programs.
///
/// Measures timer wake-ups, wake-ups and interrupts across CPUs, exits to the host, context
/// switches through pipes, and the round trip to a peer, and what the host and CPU quotas took
/// meanwhile. Needs no root and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time for the measurement, which disturbs other programs, 1s to 27s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = within_bounds)]
    duration: Duration,

    /// Also time the replies of this peer, a machine of yours: HOST by ICMP echo, udp:HOST or
    /// udp:HOST:PORT by UDP echo, ntp:HOST by NTP
    #[arg(long, value_name = "PEER", value_parser = EchoPeer::parse)]
    peer: Option<EchoPeer>,

    /// Measure only this figure, such as timer-wake-up or pipe-one-cpu; repeatable
    #[arg(long, value_name = "FIGURE", value_parser = figure)]
    only: Vec<FigureKind>,

    /// Compare with the file of an earlier run with --format json
    #[arg(long, value_name = "BEFORE.json")]
    compare: Option<PathBuf>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn within_bounds(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=LONGEST, "1s to 27s")
}

/// A figure by its name in JSON.
fn figure(name: &str) -> Result<FigureKind, String> {
    serde_json::from_value(name.into()).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    echo_has_a_peer(args)?;
    let plan = LatencyPlan {
        duration: args.duration,
        echo: || helpers::command(&Helper::PipeEcho),
        peer: args.peer.clone(),
        cpus: None,
        only: args.only.clone(),
    };
    let before = args.compare.as_deref().map(read_earlier).transpose()?;
    let progress = TerminalProgress::new(plan.duration);
    let found = inspect::latency::measure(&plan, &|what| progress.doing(what));
    drop(progress);
    let report = LatencyReport::new(found, before.as_ref());
    if let (Some(compared), Format::Text) = (&report.compared, args.format) {
        output::text(&comparison_table(compared, &report).text())?;
    }
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&text::render(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A chosen echo needs a peer, and a peer is for nothing but that.
fn echo_has_a_peer(args: &Args) -> Result<(), CliError> {
    let echo = args.only.contains(&FigureKind::Echo);
    match &args.peer {
        None if echo => Err(CliError::Failed {
            cause: "--only echo needs a peer".into(),
            remedy: "add --peer HOST, with a host of yours".into(),
        }),
        Some(_) if !echo && !args.only.is_empty() => Err(CliError::Failed {
            cause: "--peer is for the echo, which --only leaves out".into(),
            remedy: "add --only echo".into(),
        }),
        _ => Ok(()),
    }
}

/// The largest report that is read: one is some 100 kB.
const BYTES: u64 = 16 << 20;

/// An earlier report.
fn read_earlier(path: &Path) -> Result<LatencyReport, CliError> {
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
fn comparison_table(compared: &RunComparison, now: &LatencyReport) -> ReportTable {
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
        let table = comparison_table(now.compared.as_ref().unwrap(), &now).text();
        assert!(table.contains("+50 %") || table.contains("+49 %"), "{table}");
        let file = tempfile::NamedTempFile::new().unwrap();
        serde_json::to_writer(&file, &now).unwrap();
        assert_eq!(read_earlier(file.path()).unwrap().compared, now.compared);
        serde_json::to_writer(file.reopen().unwrap(), &before).unwrap();
        file.as_file().set_len(serde_json::to_vec(&before).unwrap().len() as u64).unwrap();
        assert_eq!(read_earlier(file.path()).unwrap().compared, None);
    }
}
