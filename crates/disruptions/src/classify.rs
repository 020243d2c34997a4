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
//! *Machine*: the first row that applies. The *shift* is how far another clock
//! advanced against the TSC: the kernel's source where that is not the TSC, else
//! the host's page; less than 10 ms is none where the RTC gained on all of them.
//! A sample is *late* by its time since the last one beyond the planned one.
//!
//! | evidence | conclusion |
//! | --- | --- |
//! | another VMClock generation, `NEW_VMGENID=1`, or the log's `crng reseeded due to virtual machine fork` | snapshot restored |
//! | CLOCK_BOOTTIME stepped, or the log's `suspend exit`, `hibernation exit` | suspend |
//! | another VMClock marker; another TSC frequency in the page; the TSC's rate changed, by 20 ppm against a source that is a page, by 1000 ppm against another | migrated |
//! | shift backward of 0.1 s or more, and the TSC ran for as long while no sample was taken | pause |
//! | shift that the host's NTP explains, by the age of the page's stamp | host stepped |
//! | other shift backward with such a late sample; shift forward while the TSC stopped or ran | pause |
//! | shift forward since the TSC went backward | migrated if the page shifted with it, else counter disrupted |
//! | other shift backward of the page | host stepped |
//! | the RTC gained on CLOCK_BOOTTIME | pause |
//! | a sample 1 s late, and nothing ran meanwhile | pause; counter disrupted if the RTC lost that time |
//! | `GUEST_STOPPED` | pause |
//! | another shift; a page that was reset; the TSC's rate changed by 20 ppm | counter disrupted |
//!
//! A pause of over 3 s in which the source stopped shows in the RTC: where the
//! RTC was read and does not show it, the TSC jumped instead (migrated if the
//! page shifted with it, else counter disrupted).
//!
//! What each host does to the clocks, and so what can be known, is in
//! docs/guide/watch.md.

mod machine;
mod time_of_day;

use instruments::steps::Interval;

use crate::clock_name::{MONOTONIC, RAW, TSC};
use crate::{Disruption, Evidence, Kind, LateCause, Size};

/// What a conclusion depends on besides the evidence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'s> {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: Option<u64>,
    pub(crate) source: Option<&'s str>,
    /// The most that a sample was late while evidence was gathered, ns.
    pub(crate) late_ns: f64,
    /// Whether the RTC was read since.
    pub(crate) rtc_was_read: bool,
}

/// A piece of evidence and its time.
type Dated = (u64, Evidence);

/// What happened, in the order of the first evidence.
pub(crate) fn classify(evidence: Vec<Dated>, context: Context<'_>) -> Vec<Disruption> {
    let mut disruptions = time_of_day::classify(&evidence, context);
    disruptions.extend(switched(&evidence));
    disruptions.extend(stolen(&evidence));
    disruptions.extend(slewed(&evidence));
    disruptions.extend(machine::classify(&evidence, context));
    disruptions.sort_by_key(|disruption| disruption.at_monotonic_ns);
    disruptions
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
    let is_switch = |it: &Evidence| matches!(it, Evidence::Clocksource { .. });
    evidence.iter().any(|(_, it)| is_switch(it)).then_some(())?;
    from(Kind::SourceSwitched, evidence, |it| is_switch(it) || is_log_of_source(it))
}

fn is_log_of_source(evidence: &Evidence) -> bool {
    let Evidence::Log { line } = evidence else { return false };
    ["Switched to", "unstable"].iter().any(|word| line.contains(word))
}

fn stolen(evidence: &[Dated]) -> Option<Disruption> {
    let belongs = |it: &Evidence| {
        matches!(it, Evidence::Stolen { .. } | Evidence::Late { cause: LateCause::Stolen, .. })
    };
    let mut steal = from(Kind::LongSteal, evidence, belongs)?;
    let most = steal.evidence.iter().filter_map(|it| match it {
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
    let mut slew = from(Kind::Steered, evidence, |it| step_of(it, MONOTONIC, RAW).is_some())?;
    slew.size = slew.evidence.first().and_then(|it| step_of(it, MONOTONIC, RAW)).map(Size::from);
    Some(slew)
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

/// The step of the raw clock against the TSC.
fn raw_by_tsc(evidence: &[Dated]) -> Option<Interval> {
    step(evidence, RAW, TSC)
}
