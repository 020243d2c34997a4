//! `parachron latency`: who is late on this machine, and why.

mod csv;
pub(crate) mod report;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use inspect::latency::{Peer, Plan};
use inspect::tree::Tree;
use instruments::duration;

use crate::commands::helpers::{self, Helper};
use crate::error::CliError;
use crate::output::progress::Progress;
use crate::output::{self, Format};
use report::LatencyReport;

/// Longest run: what is measured disturbs others.
const LONGEST: Duration = Duration::from_secs(27);

/// Measure who is late on this machine, and why.
///
/// Timer wake-ups, wake-ups and interrupts across CPUs, exits to the host, gaps
/// in which a running loop did not run, context switches through pipes, and the
/// way to a peer; for each tail the cause, what shows it, and a remedy. Needs no
/// root and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time for the measurement, 1s to 27s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = within_bounds)]
    duration: Duration,

    /// Also send messages to this peer of yours and time its answers: ICMP echo
    /// to HOST; udp:HOST[:PORT], UDP echo; ntp:HOST[:PORT], an NTP server
    #[arg(long, value_name = "PEER", value_parser = Peer::parse)]
    peer: Option<Peer>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn within_bounds(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    let fits = (Duration::from_secs(1)..=LONGEST).contains(&duration);
    fits.then_some(duration).ok_or_else(|| format!("expected 1s to 27s, found {text:?}"))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = Plan {
        duration: args.duration,
        echo: || helpers::command(&Helper::PipeEcho),
        peer: args.peer.clone(),
        cpus: None,
    };
    let report = measured(&plan);
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Csv => output::text(&csv::render(&report))?,
        Format::Text | Format::Markdown => {
            output::text(&text::render(&report, args.format, output::colours()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One run on this machine.
fn measured(plan: &Plan) -> LatencyReport {
    let progress = Progress::new(plan.duration);
    let found = inspect::latency::measure(plan, &|what| progress.doing(what));
    LatencyReport::new(found, &inspect::read(&Tree::live()))
}
