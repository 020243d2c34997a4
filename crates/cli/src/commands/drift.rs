//! `parachron drift`: how wrong each clock goes, against a reference.

mod answer;
mod notes;
mod plot;
pub(crate) mod report;
mod text;
mod verdicts;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use daemon::advice::unknown_scale;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use inspect::comparison::selected::{self, SelectError, Wanted, best};
use inspect::comparison::{
    ClockName, ClockPairSeries, ComparedClocks, ComparisonReference, ComparisonSession,
    NothingMeasured, Pace, Unchecked,
};
use inspect::tree::Tree;
use instruments::drift::Budget;
use instruments::duration;
use linux::vmclock::VmClockDevice;
use linux::wait::{Signals, WaitUntil};
use report::DriftReport;
use sources::phc::PhcSpec;

use crate::commands::drift::report::NotHeld;
use crate::error::{self, CliError, cannot_wait};
use crate::output::{self, Format};

/// Measure how far each clock drifts from a reference.
///
/// Compares this machine's clocks with NTP servers, PTP hardware clocks, the host's VMClock page or
/// chronyd's estimate; by default with the PTP clock that shows the host's time, or with
/// CLOCK_MONOTONIC_RAW if there is none. Reads clocks and sets none. Exit code 0: all clocks are
/// within the limits. 1: one clock is not. 2: nothing could be measured, a limit could not be
/// checked, or a reference or a clock stepped; the figures then cover the other comparisons.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare with this NTP server; repeatable
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server_name)]
    ntp: Vec<String>,

    /// Compare with this PTP hardware clock, such as /dev/ptp0; `auto` selects the one that
    /// shows the host's time; repeatable. For an offset, add the time scale of a network
    /// card's clock: /dev/ptp1,utc; /dev/ptp1,tai with TAI - UTC from the kernel; or
    /// /dev/ptp1,tai=37
    #[arg(long, value_name = "DEVICE[,utc|,tai]")]
    phc: Vec<PhcSpec>,

    /// Compare with the host's VMClock page, at /dev/vmclock0 or DEVICE
    #[arg(long, value_name = "DEVICE", num_args = 0..=1,
          default_missing_value = VmClockDevice::PATH, value_parser = device)]
    vmclock: Option<PathBuf>,

    /// Compare with the estimate of chronyd, on this machine or at ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    chrony: Option<Option<SocketAddr>>,

    /// Measure only these clocks, separated by commas; repeatable
    #[arg(long, value_name = "CLOCK", value_delimiter = ',', value_parser = clock_name())]
    clock: Vec<ClockName>,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,

    /// Time between comparisons, 10ms to 1h [default: 1/600 of the duration, 100ms to 1s;
    /// 4s with NTP servers outside this machine and private networks]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,

    /// Largest frequency error allowed
    #[arg(long, value_name = "PPM", value_parser = limit)]
    max_ppm: Option<f64>,

    /// Largest offset allowed, for clocks and references that count from 1970
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    max_offset: Option<Duration>,

    /// Also show the stability of each clock, and which comparisons were used
    #[arg(long)]
    verbose: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Also plot the result, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn clock_name() -> impl TypedValueParser<Value = ClockName> {
    let value = |clock: ClockName| PossibleValue::new(clock.name()).help(clock.description());
    PossibleValuesParser::new(ClockName::all().map(value))
        .try_map(|name| ClockName::named(&name).ok_or("no such clock"))
}

/// Closer together, comparisons would measure each other.
fn interval(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_millis(10)..=Duration::from_secs(3600), "10ms to 1h")
}

fn limit(text: &str) -> Result<f64, String> {
    let limit = text.parse().ok().filter(|limit: &f64| limit.is_finite() && *limit >= 0.0);
    limit.ok_or_else(|| format!("expected a number of ppm such as 50, found {text:?}"))
}

/// A name in tables and notes is one word, without the signs that part and quote names there.
fn name(text: &str, expected: &str) -> Result<String, String> {
    let unfit = |c: char| c == ',' || c == '"' || c.is_control() || c.is_whitespace();
    if text.contains(unfit) {
        Err(format!("expected {expected}, found {text:?}"))
    } else {
        Ok(text.to_owned())
    }
}

fn server_name(text: &str) -> Result<String, String> {
    name(text, "a host such as ntp.example or ntp.example:123")
}

fn device(text: &str) -> Result<PathBuf, String> {
    name(text, "a device such as /dev/ptp0").map(PathBuf::from)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    args.plot.as_deref().map_or(Ok(()), output::may_write)?;
    let facts = inspect::read(&Tree::live());
    let (references, note) = references(args)?;
    let only = if let [only] = &references[..] { only.is_clock() } else { None };
    let clocks = ComparedClocks::find(&args.clock, only, &facts).for_run(args.duration);
    let budget = Budget {
        max_ppm: args.max_ppm,
        max_offset_ns: args.max_offset.map(|limit| limit.as_secs_f64() * 1e9),
    };
    let mut run = DriftRun::new(clocks, references);
    run.notes.extend(note);
    if args.max_offset.is_some() && !run.session.has_offsets() {
        // Before a run that cannot answer.
        let NotHeld { why, remedy } = NotHeld::from_unchecked(&Unchecked::Offset);
        return Err(CliError::Failed { cause: why, remedy });
    }
    // Where the TSCs of two CPUs differ, moving between them would look like
    // a step; where pinning is refused, that is what is seen.
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
    let _pinned = linux::cpus::pin(cpu);
    let measured = run.measure(args.duration);
    // What was measured is shown, whatever ended it.
    let shown = show(args, &run, budget);
    measured?;
    shown
}

/// What the command line names, or else the best there is; with a note where it
/// is not what a person may expect.
fn references(args: &Args) -> Result<(Vec<ComparisonReference>, Option<String>), CliError> {
    let pace = Pace::new(args.interval, args.duration);
    let wanted = Wanted {
        ntp: &args.ntp,
        phc: &args.phc,
        vmclock: args.vmclock.as_deref(),
        chrony: args.chrony,
    };
    let references = selected::references(&wanted, pace).map_err(failed)?;
    if !references.is_empty() {
        return Ok((references, None));
    }
    let (reference, note) = select_best(pace);
    Ok((vec![reference], note))
}

fn show(args: &Args, run: &DriftRun, budget: Budget) -> Result<ExitCode, CliError> {
    let report = run.report(budget)?;
    // A report that cannot be printed may still be drawn, and the other way.
    let svg = || plot::svg(&report, run.session.pairs());
    let drawn = args.plot.as_ref().map_or(Ok(()), |path| output::file(path, svg()));
    let printed = match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::text(&text::render(&report, args.verbose)),
    };
    drawn.and(printed)?;
    if let [first, others @ ..] = &report.disturbed[..] {
        // The report has them all.
        let more = match others.len() {
            0 => String::new(),
            more => format!(" And {more} more, as reported."),
        };
        return Err(CliError::Failed {
            cause: format!("{first}{more}"),
            remedy:
                "measure again, with another reference or several (three show which is wrong); \
                     run `parachron watch` to see what sets a clock"
                    .into(),
        });
    }
    Ok(if verdicts::is_within(&report)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The best there is, and a note where it is not what a person may expect.
fn select_best(pace: Pace) -> (ComparisonReference, Option<String>) {
    let (reference, unread) = best(pace);
    let note = unread.map(|(path, why)| {
        format!(
            "Compared with CLOCK_MONOTONIC_RAW, because {}, which shows the host's time, cannot \
             be read: {why}.",
            path.display()
        )
    });
    (reference, note)
}

fn failed(error: SelectError) -> CliError {
    let remedy = match &error {
        SelectError::Scale(phc, why) => {
            let (cause, remedy) = unknown_scale(phc, why);
            return CliError::Failed { cause, remedy };
        }
        SelectError::Ntp(_) => {
            "pass --ntp HOST or HOST:PORT, with a name or address that this machine can resolve"
        }
        SelectError::Phc(..) => {
            "run `ls /dev/ptp*` to list the clocks; under KVM enable CONFIG_PTP_1588_CLOCK_KVM in \
             the guest's kernel; use sudo if the device is not readable"
        }
        SelectError::NoHostsClock => {
            "run `modprobe ptp_kvm` in a guest of KVM, or pass --phc with one of `ls /dev/ptp*`"
        }
        SelectError::VmClock(..) => {
            "use Linux 6.13 or later with CONFIG_PTP_1588_CLOCK_VMCLOCK, on a host that offers the \
             device; use sudo if the device is not readable"
        }
        SelectError::Duplicate(_) => sources::DUPLICATE_REMEDY,
        _ => "use another reference, such as --ntp HOST",
    };
    CliError::Failed { cause: error.to_string(), remedy: remedy.into() }
}

/// Time between updates, at least.
const EACH: Duration = Duration::from_millis(500);

/// An update computes all figures again: it gets a fiftieth of the time at most.
const SHARE: u32 = 50;

/// The lines; none where standard error is no terminal.
struct Live {
    bars: MultiProgress,
    lines: Vec<ProgressBar>,
    next: Instant,
}

impl Live {
    fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { bars, lines: Vec::new(), next: Instant::now() }
    }

    /// Prints what cannot wait for the end, above the lines.
    fn note(&self, text: &str) {
        self.bars.suspend(|| error::note(text));
    }

    /// Shows the figures so far, if an update is due.
    fn show(&mut self, pairs: &[ClockPairSeries], elapsed: Duration) {
        let now = Instant::now();
        if self.bars.is_hidden() || now < self.next {
            return;
        }
        while self.lines.len() < pairs.len() {
            let line = self.bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                line.set_style(style);
            }
            self.lines.push(line);
        }
        for (pair, line) in pairs.iter().zip(&self.lines) {
            if let Some(drift) = pair.series.drift() {
                line.set_message(text::live(pair.clock, &pair.reference, &drift, elapsed));
                line.tick();
            }
        }
        self.next = now + EACH.max(now.elapsed() * SHARE);
    }
}

impl Drop for Live {
    /// What comes next is printed on a clean line.
    fn drop(&mut self) {
        self.lines.iter().for_each(ProgressBar::finish_and_clear);
    }
}

// A run of the program: comparisons made, shown while they are made, and reported.

/// A run.
struct DriftRun {
    session: ComparisonSession,
    /// Findings in addition to the session's.
    notes: Vec<String>,
    elapsed: Duration,
}

impl DriftRun {
    /// Nothing compared yet.
    fn new(clocks: ComparedClocks, references: Vec<ComparisonReference>) -> Self {
        Self {
            session: ComparisonSession::new(clocks, references),
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Compares until `duration` is over, a signal comes, or every reference
    /// has stopped.
    ///
    /// # Errors
    /// It cannot wait.
    fn measure(&mut self, duration: Duration) -> Result<(), CliError> {
        let begun = Instant::now();
        let measured = self.rounds(begun, begun + duration);
        self.elapsed = begun.elapsed();
        self.session.finish();
        measured
    }

    fn rounds(&mut self, begun: Instant, end: Instant) -> Result<(), CliError> {
        let mut live = Live::new();
        let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?).for_reader();
        while let Some(round) = self.session.next(&wait, end).map_err(cannot_wait)? {
            if let Some(why) = round.failed_at_first {
                live.note(&format!("the first comparison with {} failed: {why}", round.reference));
            }
            live.show(self.session.pairs(), begun.elapsed());
        }
        Ok(())
    }

    /// The result.
    ///
    /// # Errors
    /// Not one comparison was made.
    fn report(&self, budget: Budget) -> Result<DriftReport, CliError> {
        let outcome = self.session.outcome(budget).map_err(|nothing| nothing_measured(&nothing))?;
        Ok(DriftReport::from_outcome(outcome, budget, self.elapsed, self.notes.clone()))
    }
}

fn nothing_measured(nothing: &NothingMeasured) -> CliError {
    let running = if nothing.has_chronyd { "run `systemctl start chrony`, or " } else { "" };
    CliError::Failed {
        cause: nothing.to_string(),
        remedy: format!(
            "{running}use another reference (`--ntp`, `--phc`, `--vmclock`, `--chrony`) or \
             another --clock"
        ),
    }
}

#[cfg(test)]
mod tests;
