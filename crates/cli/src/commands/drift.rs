//! `parachron drift`: how wrong each clock goes, against a reference.

mod clocks;
mod csv;
mod live;
mod notes;
mod plot;
mod records;
mod references;
pub(crate) mod report;
mod session;
mod stopwatch;
mod text;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use instruments::drift::budget::Budget;
use platform::facts;
use platform::tree::Tree;

use crate::duration;
use crate::error::CliError;
use crate::output::{self, Format};
use clocks::{ClockName, Clocks};
use live::Live;
use records::Recorder;
use references::{NEAR, Reference};
use session::Session;

/// Measure how far each clock drifts from a reference.
///
/// Compares this machine's clocks with NTP servers, PTP hardware clocks or
/// what chronyd believes, for a while; without any of them, with
/// CLOCK_MONOTONIC_RAW. Reads clocks and sets none. Exits with 0 if all are
/// within the budget, 1 if not, 2 if nothing could be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare with this NTP server; may be repeated
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server_name)]
    ntp: Vec<String>,

    /// Compare with this PTP hardware clock, such as /dev/ptp0; under KVM that
    /// is the host's clock; may be repeated
    #[arg(long, value_name = "DEVICE")]
    phc: Vec<PathBuf>,

    /// Compare with what chronyd believes, the local one or one that takes
    /// commands at this address
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true)]
    chrony: Option<Option<SocketAddr>>,

    /// Compare with a stopwatch: Enter at its start, Enter at its end
    #[arg(long, conflicts_with_all = ["ntp", "phc", "chrony", "records", "resume", "plot"])]
    stopwatch: bool,

    /// Measure only this clock; may be repeated
    #[arg(long, value_enum, value_name = "CLOCK")]
    clock: Vec<ClockName>,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,

    /// Time from comparison to comparison, 10ms to 1h; without it 1s, and 4s
    /// with NTP servers that are not on this machine or a private network
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,

    /// The largest frequency error that is good enough
    #[arg(long, value_name = "PPM", value_parser = limit)]
    max_ppm: Option<f64>,

    /// The largest offset that is good enough, of clocks and references that
    /// count from 1970
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    max_offset: Option<Duration>,

    /// Write each comparison to a new file as it is made: .csv or .jsonl
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    records: Option<PathBuf>,

    /// Go on with the file of an earlier run, its comparisons included
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Also draw the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Closer together, comparisons would measure each other.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    match INTERVALS.contains(&interval) {
        true => Ok(interval),
        false => Err(format!("expected 10ms to 1h, found {text:?}")),
    }
}

fn limit(text: &str) -> Result<f64, String> {
    let limit = text.parse().ok().filter(|limit: &f64| limit.is_finite() && *limit >= 0.0);
    limit.ok_or_else(|| format!("expected a number of ppm such as 50, found {text:?}"))
}

/// Names go into records, whose fields end at commas.
fn server_name(text: &str) -> Result<String, String> {
    let unfit = |c: char| c == ',' || c == '"' || c.is_control() || c.is_whitespace();
    match text.contains(unfit) {
        false => Ok(text.to_owned()),
        true => {
            Err(format!("expected a host such as ntp.example or ntp.example:123, found {text:?}"))
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let facts = facts::read(&Tree::live());
    let references = references(args)?;
    let by_raw = references.iter().any(Reference::is_raw).then_some(ClockName::Raw);
    let clocks = Clocks::find(&args.clock, by_raw, &facts);
    let boot = boot();
    let (recorder, joined) = match (&args.records, &args.resume) {
        (Some(path), _) => (Some(Recorder::create(path)?), None),
        (_, Some(path)) => {
            Recorder::resume(path).map(|(file, joined)| (Some(file), Some(joined)))?
        }
        _ => (None, None),
    };
    // Where the TSCs of two CPUs differ, moving between them would look like
    // a step; where pinning is refused, that is what is seen.
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
    let _pinned = platform::cpus::pin(cpu);
    let mut session = Session::new(clocks, references, recorder);
    if let Some(joined) = joined {
        session.join(joined, &boot);
    }
    if args.stopwatch {
        session.by_stopwatch()?;
    } else {
        session.run(args.duration, &boot, &mut Live::new())?;
    }
    let budget = Budget {
        max_ppm: args.max_ppm,
        max_offset_ns: args.max_offset.map(|limit| limit.as_secs_f64() * 1e9),
    };
    let report = session.report(budget)?;
    // A report that cannot be printed may still be drawn, and the other way.
    let svg = || plot::svg(&report, &session.pairs);
    let drawn = args.plot.as_ref().map_or(Ok(()), |path| output::file(path, svg()?));
    let printed = match args.format {
        Format::Json => output::json(&report),
        Format::Csv => output::text(&csv::render(&report)),
        Format::Text | Format::Markdown => output::text(&text::render(&report, args.format)),
    };
    drawn?;
    printed?;
    Ok(if report.is_within() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn references(args: &Args) -> Result<Vec<Reference>, CliError> {
    let local = args.interval.unwrap_or(NEAR);
    let mut references = Vec::new();
    for name in &args.ntp {
        let server = Reference::ntp(name, args.interval).map_err(|error| CliError::Failed {
            cause: error.to_string(),
            remedy: "a name or address that this machine can resolve, and a port after a colon"
                .into(),
        })?;
        references.push(server);
    }
    for path in &args.phc {
        references.push(Reference::phc(path, local).map_err(|why| {
            CliError::Failed {
                cause: format!("cannot compare with {}: {why}", path.display()),
                remedy:
                    "`ls /dev/ptp*`; under KVM, CONFIG_PTP_1588_CLOCK_KVM in the guest's kernel; \
                     as root where it is not readable"
                        .into(),
            }
        })?);
    }
    if let Some(address) = args.chrony {
        references.push(Reference::chrony(address, local));
    }
    if references.is_empty() && !args.stopwatch {
        references.push(Reference::raw(local));
    }
    Ok(references)
}

/// The kernel's name of this boot; where it tells none, the clocks of two
/// runs are taken to have counted on.
fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').collect()
}
