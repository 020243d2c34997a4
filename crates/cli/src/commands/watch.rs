//! `parachron watch`: updates, steps and changes of the clock as they happen.

pub(crate) mod event;
mod journal;
mod screen;
mod started;
mod summary;
mod text;
mod view;
mod watched;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use disruptions::Kind;

use crate::duration;
use crate::error::CliError;
use crate::error::cannot_wait;
use crate::output::LineFormat;
use crate::probe_paths::ProbePathArgs;
use event::{Line, Said};
use journal::Entries;
use linux::wait::{Signals, Token, Wait, Wake};
use platform::sampler::Sampler;
use screen::{JsonLines, PlainLines, Screen, Shown};
use view::View;
use watched::Watched;

/// Exit code when something was told that `--fail-on` names.
const FOUND: u8 = 1;

/// Tell what happens to this machine's time, as it happens.
///
/// A clock set, a leap second, a sleep, a pause by the host, a restored
/// snapshot, a migration, another source, a long steal: each with its time,
/// its size and what it is told from. On a terminal, a live view; elsewhere,
/// and with --plain, a line for each event. Ends after --duration, at q, or at
/// Ctrl-C, with a summary. Reads clocks and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Time from look to look, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = interval)]
    interval: Duration,

    /// Lines instead of the live view, on a terminal too
    #[arg(long)]
    plain: bool,

    /// How to print events: text, or json, an object a line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,

    /// Tell these disruptions only, and not each step and update
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kinds())]
    only: Vec<Kind>,

    /// Exit with code 1 when one of these was told
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kinds())]
    fail_on: Vec<Kind>,

    /// Write disruptions to the systemd journal too, with fields
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = platform::journal::SOCKET
    )]
    journal: Option<PathBuf>,

    #[command(flatten)]
    probe_paths: ProbePathArgs,
}

/// The kinds of disruptions by their names.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or("not a kind of disruption")
    })
}

/// Looks closer together than this would measure themselves; further apart,
/// an event's time says little.
fn interval(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_millis(1)..=Duration::from_secs(10), "1ms to 10s")
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut waiting = Wait::new(Signals::ending().map_err(cannot_wait)?).for_reader();
    let mut journal = args.journal.as_deref().map(Entries::open).transpose()?;
    let mut sampler = Sampler::new(&args.probe_paths.paths());
    let mut look = sampler.sample(true);
    let started = started::started(args.interval, &sampler, &look);
    let mut screen = screen(args, &started)?;
    let clock_set = sampler.clock_set().map(|fd| waiting.add(fd));
    clock_set.transpose().map_err(cannot_wait)?;
    let keys = screen.keys().map(|keys| waiting.add(keys)).transpose().map_err(cannot_wait)?;
    let mut watched = Watched::new(args.interval);
    screen.lines(&[started])?;

    let begun = Instant::now();
    let end = args.duration.and_then(|duration| begun.checked_add(duration));
    let mut next = begun;
    loop {
        let lines = args.asked_for(watched.observe(look.clone()));
        screen.lines(&lines)?;
        screen.state(&Shown { look: &look, watched: &watched })?;
        if let Some(journal) = &mut journal {
            journal.write(&lines);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        // Looks that are overdue are left out, not made up for.
        next = (next + watched.observer().next_sample_in()).max(Instant::now());
        let deadline = end.map_or(next, |end| next.min(end));
        match wait(&waiting, deadline, screen.as_mut(), keys)? {
            Wake::ReaderGone => return Ok(args.exit_code(&watched)),
            Wake::Signal => break,
            Wake::Readable(token) if Some(token) == keys => break,
            // The clock was set: a sample is due at once.
            Wake::Deadline | Wake::Readable(_) => {
                look = sampler.sample(watched.observer().is_gathering());
            }
        }
    }
    let (told, summary) = watched.finish();
    let mut lines = args.asked_for(told);
    if let Some(journal) = &mut journal {
        journal.write(&lines);
    }
    lines.extend(summary.map(|line| line.with_not_in_journal(journal.as_ref().map(Entries::lost))));
    screen.finish(&lines)?;
    Ok(args.exit_code(&watched))
}

impl Args {
    /// What is to be told of all there is.
    fn asked_for(&self, mut lines: Vec<Line>) -> Vec<Line> {
        lines.retain(|line| match &line.event {
            _ if self.only.is_empty() => true,
            Said::Disruption(told) => self.only.contains(&told.kind),
            Said::Moved(_) => false,
            Said::Started(_) | Said::Summary(_) => true,
        });
        lines
    }

    fn exit_code(&self, watched: &Watched) -> ExitCode {
        let told = &watched.summary().disruptions;
        match self.fail_on.iter().any(|kind| told.contains_key(kind)) {
            true => ExitCode::from(FOUND),
            false => ExitCode::SUCCESS,
        }
    }
}

/// Waits for the next sample; readable `keys` only if the key ends the watch.
fn wait(
    waiting: &Wait,
    deadline: Instant,
    screen: &mut dyn Screen,
    keys: Option<Token>,
) -> Result<Wake, CliError> {
    loop {
        match waiting.until(deadline).map_err(cannot_wait)? {
            Wake::Readable(token) if Some(token) == keys && !screen.key_says_end()? => {}
            wake => return Ok(wake),
        }
    }
}

fn screen(args: &Args, started: &Line) -> Result<Box<dyn Screen>, CliError> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    Ok(match args.format {
        LineFormat::Json => Box::new(JsonLines),
        LineFormat::Text if is_terminal && !args.plain => Box::new(View::new(started)?),
        LineFormat::Text => Box::new(PlainLines::default()),
    })
}
