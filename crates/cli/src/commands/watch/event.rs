//! The events of `parachron watch`: lines of `--format json`.

use disruptions::{Disruption, Event, Stamped};
use facts::hardware::PvclockPage;
use facts::steering::Adjtimex;
use facts::{Fact, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use super::summary::WatchSummary;

/// One line: an event and its time.
pub(crate) type Line = Stamped<WatchEvent>;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum WatchEvent {
    /// The watch began: the first line.
    Started(Box<WatchStart>),
    /// What happened to the machine's clocks, as far as the evidence shows.
    Disruption(Disruption),
    /// The watch ended: the last line.
    Summary(WatchSummary),
    /// A single change.
    #[serde(untagged)]
    Change(Event),
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct WatchStart {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Sampling interval, s.
    pub(crate) interval_s: f64,
    /// The CPU the clocks are read on; null where it may be any.
    pub(crate) cpu: Option<u32>,
    /// The clock source in use.
    pub(crate) clocksource: Fact<String>,
    /// The kvm-clock page.
    pub(crate) page: Fact<PvclockPage>,
    /// The age of the page's time stamp, s, where it is known; the page may
    /// have been updated since.
    pub(crate) page_age_s: Option<f64>,
    /// The kernel's clock discipline.
    pub(crate) adjtimex: Fact<Adjtimex>,
    /// Other probes, and whether they can be read.
    pub(crate) probes: Vec<ProbeStatus>,
    /// Pairs of clocks that are not compared, and why.
    pub(crate) not_compared: Vec<String>,
}

/// A probe.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProbeStatus {
    /// `VMClock`
    pub(crate) probe: String,
    /// Why it cannot be read; null where it can.
    pub(crate) error: Option<String>,
}

/// An event at `at_ns` by CLOCK_MONOTONIC; its time of day is by the sample
/// that showed it.
pub(super) fn line(at_ns: u64, event: WatchEvent, sample: &Sample) -> Line {
    let ago_ns = sample.monotonic_ns.saturating_sub(at_ns);
    let at_unix_ns = sample.unix_ns.and_then(|now_ns| now_ns.checked_sub(ago_ns));
    Line { at_unix_ns, at_monotonic_ns: at_ns, event }
}
