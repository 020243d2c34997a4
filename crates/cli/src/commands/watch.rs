//! `parachron watch`: what happens to the clocks, as it happens.

pub(crate) mod event;
mod journal;
mod lines;
mod started;
mod summary;
mod text;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use disruptions::Kind;
use instruments::duration;

use crate::error::CliError;
use crate::error::cannot_wait;
use crate::output::LineFormat;
use event::{Line, WatchEvent};
use inspect::sampler::{ProbePaths, Sampler};
use journal::Entries;
use lines::EventLines;
use linux::wait::{Signals, WaitUntil, Wake};
use watched::Watched;

/// Exit code when a disruption that `--fail-on` names was reported.
const FOUND: u8 = 1;

/// Report what happens to this machine's clocks, as it happens.
///
/// Reports a clock that was set, a leap second, a suspend, a pause by the host,
/// a restored snapshot, a migration, another clock source, a long steal: each
/// with its time, its size and the evidence. Ends with a summary after --duration
/// or Ctrl-C. Reads clocks and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Sampling interval, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = interval)]
    interval: Duration,

    /// Output format: text, or json with one object per line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,

    /// Report only disruptions that may be of these kinds, and no single changes
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kinds())]
    kind: Vec<Kind>,

    /// Exit with code 1 if a reported disruption may be of these kinds
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kinds())]
    fail_on: Vec<Kind>,

    /// Also write disruptions to the systemd journal, with fields
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        default_missing_value = linux::journal::SOCKET
    )]
    journal: Option<PathBuf>,

    /// The VMClock page
    #[arg(long, value_name = "FILE", default_value = ProbePaths::VMCLOCK,
          help_heading = "Files to read")]
    vmclock: PathBuf,

    /// The kernel's log
    #[arg(long, value_name = "FILE", default_value = ProbePaths::KERNEL_LOG,
          help_heading = "Files to read")]
    kernel_log: PathBuf,
}

/// The kinds of disruption by name.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.name())).try_map(|name| {
        let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name);
        kind.ok_or("not a kind of disruption")
    })
}

/// Shorter intervals would measure the sampling itself; with longer ones the
/// time of an event is too coarse.
fn interval(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_millis(1)..=Duration::from_secs(10), "1ms to 10s")
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut waiting = WaitUntil::new(Signals::ending().map_err(cannot_wait)?).for_reader();
    let mut journal = args.journal.as_deref().map(Entries::open).transpose()?;
    let mut paths = ProbePaths::default();
    paths.vmclock.clone_from(&args.vmclock);
    paths.kernel_log.clone_from(&args.kernel_log);
    let mut sampler = Sampler::new(&paths);
    let mut sample = sampler.sample(true);
    let started = started::started(args.interval, &sampler, &sample);
    let mut printed = EventLines::new(args.format);
    let clock_set = sampler.clock_set().map(|alarm| waiting.add(alarm));
    clock_set.transpose().map_err(cannot_wait)?;
    let mut watched = Watched::new(args.interval);
    printed.print(&[started])?;

    let begun = Instant::now();
    let end = args.duration.and_then(|duration| begun.checked_add(duration));
    let mut next = begun;
    loop {
        let lines = args.selected(watched.observe(sample.clone()));
        printed.print(&lines)?;
        if let Some(journal) = &mut journal {
            journal.write(&lines);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        // Overdue samples are skipped, not made up for.
        next = (next + watched.observer().next_sample_in()).max(Instant::now());
        let deadline = end.map_or(next, |end| next.min(end));
        match waiting.until(deadline).map_err(cannot_wait)? {
            Wake::ReaderGone => return Ok(args.exit_code(&watched)),
            Wake::Signal => break,
            // The clock was set: a sample is due at once.
            Wake::Deadline | Wake::Readable(_) | Wake::Reload => {
                sample = sampler.sample(watched.observer().is_gathering());
            }
        }
    }
    let mut lines = args.selected(watched.last_events());
    if let Some(journal) = &mut journal {
        journal.write(&lines);
    }
    lines.extend(watched.finish(journal.as_ref().map(Entries::lost)));
    printed.print(&lines)?;
    Ok(args.exit_code(&watched))
}

impl Args {
    /// The lines that `--kind` selects.
    fn selected(&self, mut lines: Vec<Line>) -> Vec<Line> {
        lines.retain(|line| match &line.event {
            _ if self.kind.is_empty() => true,
            WatchEvent::Disruption(disruption) => {
                self.kind.iter().any(|kind| disruption.kinds.contains(*kind))
            }
            WatchEvent::Change(_) => false,
            WatchEvent::Started(_) | WatchEvent::Summary(_) => true,
        });
        lines
    }

    fn exit_code(&self, watched: &Watched) -> ExitCode {
        let failed = self.fail_on.iter().any(|kind| watched.kinds().contains(kind));
        if failed { ExitCode::from(FOUND) } else { ExitCode::SUCCESS }
    }
}
