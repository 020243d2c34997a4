//! What evidence that came together amounts to.
//!
//! # The decision
//!
//! Four questions are decided independently: was the **time of day** set, was
//! the **source** switched, was time **stolen**, and what happened to the
//! **machine**?
//!
//! *Time of day*: a step of CLOCK_REALTIME minus that of CLOCK_BOOTTIME in the
//! same sample, since a suspend moves both. The rest is a leap second if it is
//! ±1 s at the end of a UTC day and announced by adjtimex or the log, else the
//! clock was set.
//!
//! *Steal*: a sample that was a second late because of it, while nothing is known to have
//! run on the machine, fits a pause as well: Xen counts that as stolen.
//!
//! *Machine*: the first row that applies. The *shift* is how far another clock
//! advanced against the TSC: the kernel's source where that is not the TSC, else
//! the host's page; less than 10 ms is none where the RTC gained on all of them.
//! A sample is *late* by its time since the last one beyond the planned one.
//! *Moved* is restored from a snapshot or migrated; *stood* is paused or moved:
//! where a VMClock can be read and has not changed its marker, the machine was
//! not moved.
//!
//! | evidence | conclusion |
//! | --- | --- |
//! | another VMClock generation, `NEW_VMGENID=1`, or the log's `crng reseeded due to virtual machine fork` | snapshot restored |
//! | the log's `suspend exit`, `hibernation exit` | suspend |
//! | CLOCK_BOOTTIME stepped | suspend; suspended or moved where the log can be read and does not show it, and under Xen |
//! | another VMClock marker, while it counts generations | migrated |
//! | another VMClock marker; another TSC frequency, by 20 ppm, in a page with `TSC_STABLE`; the TSC's rate changed, by 20 ppm against a source that is a page, by 1000 ppm against another | moved |
//! | shift backward of 0.1 s or more, and the TSC ran for as long while no sample was taken | pause |
//! | shift that the host's NTP explains, by the age of the page's stamp | host stepped |
//! | other shift backward with such a late sample | pause |
//! | shift forward while the TSC stopped | stood |
//! | shift forward since the TSC went backward | moved if the page shifted with it, else counter disrupted |
//! | other shift backward of the page | host stepped |
//! | the RTC gained on CLOCK_BOOTTIME, and nothing else shows | stood, or the RTC was set |
//! | the RTC gained on CLOCK_BOOTTIME | stood |
//! | a sample 1 s late, not known to be another's fault, and the kernel gave up its source | stood |
//! | a sample 1 s late, and nothing ran meanwhile | pause; counter disrupted if the RTC lost that time |
//! | `GUEST_STOPPED` | stood |
//! | another shift; a page that was reset; the TSC's rate changed by 20 ppm | counter disrupted |
//!
//! A source that counts the timer's interrupts (`refined-jiffies`) loses those
//! that a busy host does not deliver: its rate shows no other host, and a shift
//! is a counter disrupted, or a pause as well where it fits one.
//!
//! A machine that may have been put back was away for as long as the RTC gained, if it
//! was read, and no shorter than its TSC ran ahead of its source.
//!
//! A pause of over 3 s in which the source stopped shows in the RTC: where the
//! RTC was read and does not show it, the TSC jumped instead (moved if the page
//! shifted with it, else counter disrupted).
//!
//! What each host does to the clocks, and so what can be known, is in
//! docs/guide/watch.md.

mod machine;
mod time_of_day;

use pvclock::units::Interval;

use crate::{Disruption, Evidence, Kind, Kinds, LateCause, Size};
use crate::{MONOTONIC, RAW, TSC};

/// What a conclusion depends on besides the evidence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'s> {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: Option<u64>,
    pub(crate) source: Option<&'s str>,
    /// The most that a sample was late while evidence was gathered, ns.
    pub(crate) late_ns: f64,
    /// When that sample was planned, after the one before, ns.
    pub(crate) planned_ns: f64,
    /// Whether the RTC was read since, and before.
    pub(crate) rtc_was_compared: bool,
    /// Whether the kernel's log can be read.
    pub(crate) log_is_read: bool,
    /// Whether a VMClock page can be read, and has the marker it had.
    pub(crate) marker_is_same: bool,
    /// Whether it counts restored snapshots.
    pub(crate) counts_generations: bool,
}

impl Context<'_> {
    /// Whether the host reports restores and migrations, and reported none.
    fn stayed(&self) -> bool {
        self.marker_is_same
    }
}

/// A piece of evidence and its time.
type Dated = (u64, Evidence);

/// What happened, in the order of the first evidence.
pub(crate) fn classify(evidence: Vec<Dated>, context: Context<'_>) -> Vec<Disruption> {
    // What happened to the machine comes before what follows from it.
    let mut disruptions: Vec<_> = machine::classify(&evidence, context).into_iter().collect();
    disruptions.extend(time_of_day::classify(&evidence, context));
    disruptions.extend(switched(&evidence));
    disruptions.extend(stolen(&evidence));
    disruptions.extend(slewed(&evidence));
    disruptions.sort_by_key(|disruption| disruption.at_monotonic_ns);
    disruptions
}

/// A disruption from all evidence that `belongs`; `None` without any.
fn collect_kind(
    kinds: impl Into<Kinds>,
    evidence: &[Dated],
    belongs: impl Fn(&Evidence) -> bool,
) -> Option<Disruption> {
    let mine: Vec<&Dated> = evidence.iter().filter(|(_, evidence)| belongs(evidence)).collect();
    let at_monotonic_ns = mine.first()?.0;
    Some(Disruption {
        kinds: kinds.into(),
        at_monotonic_ns,
        size: None,
        behind: None,
        evidence: mine.into_iter().map(|(_, evidence)| evidence.clone()).collect(),
    })
}

fn switched(evidence: &[Dated]) -> Option<Disruption> {
    let is_switch = |entry: &Evidence| matches!(entry, Evidence::Clocksource { .. });
    evidence.iter().any(|(_, entry)| is_switch(entry)).then_some(())?;
    collect_kind(Kind::SourceSwitched, evidence, |entry| {
        is_switch(entry) || is_log_of_source(entry)
    })
}

fn is_log_of_source(evidence: &Evidence) -> bool {
    let Evidence::Log { line } = evidence else { return false };
    ["Switched to", "unstable"].iter().any(|word| line.contains(word))
}

fn stolen(evidence: &[Dated]) -> Option<Disruption> {
    let belongs = |entry: &Evidence| {
        let is_late = |cause| [LateCause::Stolen, LateCause::StolenOrStopped].contains(cause);
        match entry {
            Evidence::Stolen { .. } => true,
            Evidence::Late { cause, .. } => is_late(cause),
            _ => false,
        }
    };
    if let Some((_, late)) = evidence.iter().find(|(_, entry)| {
        matches!(entry, Evidence::Late { cause: LateCause::StolenOrStopped, .. })
    }) {
        let mut starved = collect_kind(Kinds::STARVED, evidence, belongs)?;
        starved.size = late_by(late, &[LateCause::StolenOrStopped]).map(Size::from);
        return Some(starved);
    }
    let mut steal = collect_kind(Kind::LongSteal, evidence, belongs)?;
    let most = steal.evidence.iter().filter_map(|entry| match entry {
        Evidence::Stolen { stolen_ns, .. } => Some(*stolen_ns as f64),
        _ => None,
    });
    let most = most.fold(0.0, f64::max);
    // Counted in ticks of 10 ms.
    steal.size = (most > 0.0).then_some(Size { ns: most, bound_ns: 1e7 });
    Some(steal)
}

/// CLOCK_MONOTONIC moved by more than adjtimex explains: a slew.
fn slewed(evidence: &[Dated]) -> Option<Disruption> {
    let mut slew =
        collect_kind(Kind::Steered, evidence, |entry| step_of(entry, MONOTONIC, RAW).is_some())?;
    slew.size =
        slew.evidence.first().and_then(|entry| step_of(entry, MONOTONIC, RAW)).map(Size::from);
    Some(slew)
}

/// The step of one clock against another, if this is it.
fn step_of(evidence: &Evidence, of: &str, by: &str) -> Option<Interval<f64>> {
    match evidence {
        Evidence::Step { clock, against, step_ns, bound_ns } if clock == of && against == by => {
            Some(Interval::plus_minus(*step_ns, *bound_ns))
        }
        _ => None,
    }
}

/// How long a sample was late for one of these causes: the stop began after the
/// last sample, and no later than this one was due.
fn late_by(evidence: &Evidence, causes: &[LateCause]) -> Option<Interval<f64>> {
    match evidence {
        Evidence::Late { gap_s, planned_s, cause } if causes.contains(cause) => {
            Some(Interval { low: (gap_s - planned_s) * 1e9, high: gap_s * 1e9 })
        }
        _ => None,
    }
}

/// The first step of one clock against another.
fn step(evidence: &[Dated], of: &str, by: &str) -> Option<Interval<f64>> {
    evidence.iter().find_map(|(_, entry)| step_of(entry, of, by))
}

/// The step of the raw clock against the TSC.
fn raw_by_tsc(evidence: &[Dated]) -> Option<Interval<f64>> {
    step(evidence, RAW, TSC)
}
