//! `parachron watch`: what happens to the clocks, as it happens.

pub(crate) mod event;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::journal::disruption_entry;
use disruptions::{
    Kind, MONOTONIC, Observed, Observer, RAW, SLEW_SEEN_NS, TSC, page_fact, seconds,
};
use event::WatchSummary;
use event::{Line, ProbeStatus, WatchEvent, WatchStart, line};
use facts::{Fact, Sample};
use inspect::sampler::{ProbePaths, Sampler};
use instruments::duration;
use instruments::steps::page::age_ns;
use linux::journal::Journal;
use linux::wait::{Signals, WaitUntil, Wake};

use crate::error::{CliError, cannot_wait};
use crate::output::{self, LineFormat};

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
    let started = started(args.interval, &sampler, &sample);
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
    lines.extend(watched.finish(journal.as_ref().map(|journal| journal.lost)));
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

/// Writes entries.
struct Entries {
    journal: Journal,
    lost: u64,
}

impl Entries {
    fn open(socket: &Path) -> Result<Self, CliError> {
        let journal = Journal::open(socket).map_err(|error| CliError::Failed {
            cause: format!("cannot write to the journal at {}: {error}", socket.display()),
            remedy: "start systemd-journald, or write --format json to a file".into(),
        })?;
        Ok(Self { journal, lost: 0 })
    }

    /// Writes the disruptions among `lines`. An entry that the journal does
    /// not accept is counted: the watch continues without the journal.
    fn write(&mut self, lines: &[Line]) {
        for line in lines {
            if let WatchEvent::Disruption(disruption) = &line.event
                && self
                    .journal
                    .send(&disruption_entry(line.at_monotonic_ns, disruption, "parachron"))
                    .is_err()
            {
                self.lost += 1;
            }
        }
    }
}

/// Prints events in one format.
#[derive(Debug)]
struct EventLines {
    format: LineFormat,
    /// Day of the first line, and of the last one, since 1970.
    days: Option<(u64, u64)>,
}

/// ns in a day.
const DAY_NS: u64 = 86_400_000_000_000;

impl EventLines {
    fn new(format: LineFormat) -> Self {
        Self { format, days: None }
    }

    /// Prints a line of text or a JSON object for each event.
    fn print(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let shown = lines.iter().map(|line| match self.format {
            LineFormat::Json => output::json_line(line),
            LineFormat::Text => Ok(self.with_day(line)),
        });
        output::text(&shown.collect::<Result<String, _>>()?)
    }

    /// The line, preceded by the days since the first line when they have
    /// changed: lines carry no date.
    fn with_day(&mut self, line: &Line) -> String {
        let mut shown = String::new();
        if let Some(today) = line.at_unix_ns.map(|ns| ns / DAY_NS) {
            let (first, last) = self.days.unwrap_or((today, today));
            if last != today {
                let since = i128::from(today) - i128::from(first);
                shown.push_str(&format!("{since:+} d\n"));
            }
            self.days = Some((first, today));
        }
        shown.push_str(&text::line(line));
        shown.push('\n');
        shown
    }
}

// The first line: what is watched, what is not, and why not.

fn started(interval: Duration, sampler: &Sampler, sample: &Sample) -> Line {
    let age = sample.page.value().zip(sample.tsc).and_then(|(page, tsc)| age_ns(page, tsc).ok());
    let mut not_compared = Vec::new();
    if sample.raw.is_none() {
        not_compared.push(format!("{RAW} with {TSC}: this process may not read the TSC"));
    }
    if interval.as_nanos() > u128::from(SLEW_SEEN_NS) {
        not_compared.push(format!("{MONOTONIC} with {RAW}: the sampling interval is over 1 s"));
    }
    let started = WatchStart {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interval_s: interval.as_secs_f64(),
        cpu: sampler.cpu(),
        clocksource: sample.source.clone(),
        page: sample.page.clone().map(|info| page_fact(&info)),
        page_age_s: age.map(seconds),
        adjtimex: sample.adjtimex.clone(),
        probes: probes(sample),
        not_compared,
    };
    event::line(sample.monotonic_ns, WatchEvent::Started(Box::new(started)), sample)
}

fn probes(sample: &Sample) -> Vec<ProbeStatus> {
    vec![
        status("VMClock", &sample.vmclock),
        status("RTC", &sample.rtc),
        status("kernel log", &sample.log),
        status("NEW_VMGENID", &sample.new_generation),
        status("clock sets", &sample.was_set),
        status("steal", &sample.activity),
        status("run delay", &sample.thread),
    ]
}

fn status<T>(probe: &str, fact: &Fact<T>) -> ProbeStatus {
    ProbeStatus { probe: probe.to_owned(), error: fact.unknown().map(ToString::to_string) }
}

// A whole watch: each sample becomes lines, and the lines are counted.

/// What was observed from the first sample on.
struct Watched {
    observer: Observer,
    summary: WatchSummary,
    kinds: BTreeSet<Kind>,
    first_ns: Option<u64>,
    last: Option<Sample>,
}

impl Watched {
    /// A watch whose samples are planned every `interval`.
    fn new(interval: Duration) -> Self {
        Self {
            observer: Observer::new(interval),
            summary: WatchSummary::default(),
            kinds: BTreeSet::new(),
            first_ns: None,
            last: None,
        }
    }

    fn observer(&self) -> &Observer {
        &self.observer
    }

    /// The kinds that were reported, as certain or as one of several.
    fn kinds(&self) -> &BTreeSet<Kind> {
        &self.kinds
    }

    /// Takes the next sample and returns its events.
    fn observe(&mut self, sample: Sample) -> Vec<Line> {
        let now_ns = sample.monotonic_ns;
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let interval_ns =
            self.last.as_ref().map_or(0, |last| now_ns.saturating_sub(last.monotonic_ns));
        self.summary.count_sample(now_ns.saturating_sub(first_ns), interval_ns);
        let observed = self.observer.observe(sample.clone());
        let lines = self.lines(observed, &sample);
        self.last = Some(sample);
        lines
    }

    /// The last events, which are classified without more samples.
    fn last_events(&mut self) -> Vec<Line> {
        let Some(last) = self.last.take() else { return Vec::new() };
        let observed = self.observer.finish();
        let lines = self.lines(observed, &last);
        self.last = Some(last);
        lines
    }

    /// The summary, with the entries that the journal did not accept.
    fn finish(&mut self, lost_journal_entries: Option<u64>) -> Option<Line> {
        let last = self.last.take()?;
        let page = self.observer.page().map(|(version, updated_ns)| {
            (version, updated_ns.map(|at| seconds(last.monotonic_ns.saturating_sub(at))))
        });
        self.summary.close(page, lost_journal_entries);
        let summary = WatchEvent::Summary(self.summary.clone());
        Some(line(last.monotonic_ns, summary, &last))
    }

    fn lines(&mut self, observed: Observed, sample: &Sample) -> Vec<Line> {
        let mut lines = Vec::new();
        for change in observed.events {
            self.summary.count(&change.event);
            lines.push(line(change.at_monotonic_ns, WatchEvent::Change(change.event), sample));
        }
        for disruption in observed.disruptions {
            *self.summary.disruptions.entry(disruption.kinds.to_string()).or_default() += 1;
            self.kinds.extend(disruption.kinds.iter());
            let at_ns = disruption.at_monotonic_ns;
            lines.push(line(at_ns, WatchEvent::Disruption(disruption), sample));
        }
        lines
    }
}
