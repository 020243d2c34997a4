//! What evidence that came together amounts to.
//!
//! # The decision
//!
//! Four questions are independent of each other, and each may be answered:
//! was the **time of day** moved, was the **source** switched, was time
//! **stolen**, and what befell the **machine**?
//!
//! *Time of day*: a step of CLOCK_REALTIME less that of CLOCK_BOOTTIME at the
//! same look, since a sleep moves both. What is left is a leap second if it is
//! ±1 s at the end of a UTC day and announced by adjtimex or the log, else the
//! clock was set.
//!
//! *Machine*: the first row that applies. The *shift* is how far another clock
//! went against the TSC: the kernel's source where that is not the TSC, else
//! the host's page; less than 10 ms is none where the RTC gained on all of them.
//! A look is *late* by what passed beyond what was planned.
//!
//! | seen | is |
//! | --- | --- |
//! | another VMClock generation, `NEW_VMGENID=1`, or the log's `crng reseeded due to virtual machine fork` | snapshot restored |
//! | CLOCK_BOOTTIME stepped, or the log's `suspend exit`, `hibernation exit` | suspend |
//! | another VMClock marker; the page tells another TSC frequency; the TSC's rate changed, by 20 ppm against a source that is a page, by 1000 ppm against another | migrated |
//! | shift back of 0.1 s or more, and the TSC went on for as long while no look came | pause |
//! | shift that the host's NTP explains, by the age of the page's stamp | host stepped |
//! | other shift back with such a late look; shift forward while the TSC stood or went on | pause |
//! | shift forward since the TSC went back | migrated if the page shifted with it, else counter disrupted |
//! | other shift back of the page | host stepped |
//! | the RTC gained on CLOCK_BOOTTIME | pause |
//! | a look 1 s late, and nothing ran meanwhile | pause; counter disrupted if the RTC lost that time |
//! | `GUEST_STOPPED` | pause |
//! | another shift; a page written anew; the TSC's rate changed by 20 ppm | counter disrupted |
//!
//! A pause that the source stood through for over 3 s shows in the RTC: where
//! that was asked and does not show it, the TSC jumped instead (migrated if the
//! page shifted with it, else counter disrupted).
//!
//! What each host does to the clocks, and so what can be known, is in
//! docs/guide/watch.md.

mod machine;
mod time_of_day;

use instruments::steps::Interval;

use crate::observer::{MONOTONIC, RAW, TSC};
use crate::{Disruption, Evidence, Kind, LateCause, Size};

/// When it is judged, and on what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'s> {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: Option<u64>,
    pub(crate) source: Option<&'s str>,
    /// The most that a look was late while evidence was gathered, ns.
    pub(crate) late_ns: f64,
    /// Whether the RTC was asked since.
    pub(crate) rtc_was_read: bool,
}

/// A piece of evidence and its time.
type Dated = (u64, Evidence);

/// What happened, in the order of its first sign.
pub(crate) fn classify(evidence: Vec<Dated>, moment: Moment<'_>) -> Vec<Disruption> {
    let mut told = time_of_day::judge(&evidence, moment);
    told.extend(switched(&evidence));
    told.extend(stolen(&evidence));
    told.extend(slewed(&evidence));
    told.extend(machine::judge(&evidence, moment));
    told.sort_by_key(|disruption| disruption.at_monotonic_ns);
    told
}

/// A disruption from all evidence that `belongs`; `None` without any.
fn from(kind: Kind, evidence: &[Dated], belongs: impl Fn(&Evidence) -> bool) -> Option<Disruption> {
    let mine: Vec<&Dated> = evidence.iter().filter(|(_, evidence)| belongs(evidence)).collect();
    let at_monotonic_ns = mine.first()?.0;
    Some(Disruption {
        kind,
        at_monotonic_ns,
        size: None,
        behind: None,
        evidence: mine.into_iter().map(|(_, evidence)| evidence.clone()).collect(),
    })
}

fn switched(evidence: &[Dated]) -> Option<Disruption> {
    let is_switch = |it: &Evidence| matches!(it, Evidence::Source { .. });
    evidence.iter().any(|(_, it)| is_switch(it)).then_some(())?;
    from(Kind::SourceSwitched, evidence, |it| is_switch(it) || is_log_of_source(it))
}

fn is_log_of_source(evidence: &Evidence) -> bool {
    let Evidence::Log { line } = evidence else { return false };
    ["Switched to", "unstable"].iter().any(|word| line.contains(word))
}

fn stolen(evidence: &[Dated]) -> Option<Disruption> {
    let belongs = |it: &Evidence| {
        matches!(it, Evidence::Stolen { .. } | Evidence::Unwatched { cause: LateCause::Stolen, .. })
    };
    let mut told = from(Kind::LongSteal, evidence, belongs)?;
    let most = told.evidence.iter().filter_map(|it| match it {
        Evidence::Stolen { stolen_ns, .. } => Some(*stolen_ns as f64),
        _ => None,
    });
    let most = most.fold(0.0, f64::max);
    // Counted in ticks of 10 ms.
    told.size = (most > 0.0).then_some(Size { ns: most, bound_ns: 1e7 });
    Some(told)
}

/// CLOCK_MONOTONIC moved by more than adjtimex explains, and nothing else did.
fn slewed(evidence: &[Dated]) -> Option<Disruption> {
    let mut told = from(Kind::Steered, evidence, |it| step_of(it, MONOTONIC, RAW).is_some())?;
    told.size = told.evidence.first().and_then(|it| step_of(it, MONOTONIC, RAW)).map(Size::from);
    Some(told)
}

/// The step of one clock against another, if this is it.
fn step_of(evidence: &Evidence, of: &str, by: &str) -> Option<Interval> {
    match evidence {
        Evidence::Step { clock, against, step_ns, bound_ns } if clock == of && against == by => {
            Some(Interval { low: step_ns - bound_ns, high: step_ns + bound_ns })
        }
        _ => None,
    }
}

/// The first step of one clock against another.
fn step(evidence: &[Dated], of: &str, by: &str) -> Option<Interval> {
    evidence.iter().find_map(|(_, it)| step_of(it, of, by))
}

/// How far the raw clock moved against the TSC.
fn raw_by_tsc(evidence: &[Dated]) -> Option<Interval> {
    step(evidence, RAW, TSC)
}
