//! `parachron latency`: how late this machine runs programs.

mod compared;
pub(crate) mod report;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use inspect::latency::{EchoPeer, LatencyPlan};
use instruments::duration;
use instruments::latency::FigureKind;

use crate::commands::helpers::{self, Helper};
use crate::error::CliError;
use crate::output::progress::TerminalProgress;
use crate::output::{self, Format};
use report::LatencyReport;

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
    let before = args.compare.as_deref().map(compared::read).transpose()?;
    let progress = TerminalProgress::new(plan.duration);
    let found = inspect::latency::measure(&plan, &|what| progress.doing(what));
    drop(progress);
    let report = LatencyReport::new(found, before.as_ref());
    if let (Some(compared), Format::Text) = (&report.compared, args.format) {
        output::text(&compared::table(compared, &report).text())?;
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
