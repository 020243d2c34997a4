//! `parachron watch`: updates, steps and changes of the clock as they happen.

pub(crate) mod event;
mod looking;
mod observer;
mod screen;
mod steering;
mod summary;
mod text;
mod view;
pub(crate) mod waiting;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use instruments::steps::page::age_ns;

use crate::duration;
use crate::error::CliError;
use event::{Event, Line, Started, page, seconds};
use looking::{Look, Looker};
use observer::{MONOTONIC, Observer, RAW, SLEW_SEEN_NS, TSC};
use screen::{JsonLines, PlainLines, Screen, Shown};
use view::View;
use waiting::{Waiting, Woken};

/// Show updates, steps and changes of the clock as they happen.
///
/// On a terminal, a live view; elsewhere, and with --plain, a line for each
/// event. Ends after --duration, at q, or at Ctrl-C, with a summary. Reads
/// clocks and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after this time, such as 10s, 5min or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Time from look to look, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = interval)]
    interval: Duration,

    /// Lines instead of the live view, on a terminal too
    #[arg(long)]
    plain: bool,

    /// How to print events: text, or json, an object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The forms of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object a line; the schema is in docs/schema
    Json,
}

/// Looks closer together than this would measure themselves; further apart,
/// an event's time says little.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(10);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    match INTERVALS.contains(&interval) {
        true => Ok(interval),
        false => Err(format!("expected 1ms to 10s, found {text:?}")),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let waiting = Waiting::new().map_err(cannot_watch)?;
    let mut looker = Looker::new();
    let first = looker.look();
    let started = started(args, &looker, &first);
    let mut screen = screen(args, &started)?;
    let mut observer = Observer::new(args.interval);
    screen.lines(&[started])?;

    let begun = Instant::now();
    let end = args.duration.and_then(|duration| begun.checked_add(duration));
    let mut next = begun;
    let mut look = first;
    loop {
        let lines = observer.observe(look.clone());
        screen.lines(&lines)?;
        screen.state(&Shown { look: &look, observer: &observer })?;
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        // Looks that are overdue are left out, not made up for.
        next = (next + args.interval).max(Instant::now());
        let deadline = end.map_or(next, |end| next.min(end));
        match wait(&waiting, deadline, screen.as_mut())? {
            Woken::ReaderGone => return Ok(ExitCode::SUCCESS),
            Woken::Signal | Woken::Key => break,
            Woken::Time => look = looker.look(),
        }
    }
    screen.finish(&observer.finish())?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for the next look; [`Woken::Key`] only if the key says to end.
fn wait(waiting: &Waiting, deadline: Instant, screen: &mut dyn Screen) -> Result<Woken, CliError> {
    loop {
        let woken =
            waiting.until(deadline, screen.keys()).map_err(|error| cannot_watch(error.into()))?;
        if woken != Woken::Key || screen.key_says_end()? {
            return Ok(woken);
        }
    }
}

fn screen(args: &Args, started: &Line) -> Result<Box<dyn Screen>, CliError> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    Ok(match args.format {
        Format::Json => Box::new(JsonLines),
        Format::Text if is_terminal && !args.plain => Box::new(View::new(started)?),
        Format::Text => Box::new(PlainLines::default()),
    })
}

fn started(args: &Args, looker: &Looker, look: &Look) -> Line {
    let age = look.page.known().zip(look.tsc).and_then(|(page, tsc)| age_ns(page, tsc).ok());
    let mut not_compared = Vec::new();
    if look.raw.is_none() {
        not_compared.push(format!("{RAW} with {TSC}: reading it is forbidden to this process"));
    }
    if args.interval.as_nanos() > u128::from(SLEW_SEEN_NS) {
        not_compared.push(format!("{MONOTONIC} with {RAW}: looks are more than 1 s apart"));
    }
    Line {
        at_unix_ns: look.unix_ns,
        at_monotonic_ns: look.monotonic_ns,
        event: Event::Started(Box::new(Started {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval_s: args.interval.as_secs_f64(),
            cpu: looker.cpu(),
            clocksource: look.source.clone(),
            page: look.page.clone().map(|info| page(&info)),
            page_age_s: age.map(seconds),
            adjtimex: look.adjtimex.clone(),
            not_compared,
        })),
    }
}

fn cannot_watch(error: std::io::Error) -> CliError {
    CliError::Failed {
        cause: format!("cannot wait for signals and time: {error}"),
        remedy: "a higher limit of open files (`ulimit -n`)".into(),
    }
}
