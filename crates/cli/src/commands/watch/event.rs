//! What happened, and when: a line of `parachron watch --format json`.

use disruptions::{Disruption, Event};
use facts::Fact;
use facts::Sample;
use facts::hardware::PvclockPage;
use facts::steering::Adjtimex;
use schemars::JsonSchema;
use serde::Serialize;

use super::summary::Summary;

/// One line: an event and its time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Line {
    /// CLOCK_REALTIME, ns since 1970; null where it shows a time before.
    pub(crate) at_unix_ns: Option<u64>,
    /// CLOCK_MONOTONIC, ns.
    pub(crate) at_monotonic_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub(crate) event: Said,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Said {
    /// The watch began: the first line.
    Started(Box<Started>),
    /// What happened to the machine's time, as far as the evidence tells.
    Disruption(Disruption),
    /// The watch ended: the last line.
    Summary(Summary),
    /// Something moved.
    #[serde(untagged)]
    Moved(Event),
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Started {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Time from look to look, s.
    pub(crate) interval_s: f64,
    /// The CPU the clocks are read on; null where it may be any.
    pub(crate) cpu: Option<u32>,
    /// The clock source in use.
    pub(crate) clocksource: Fact<String>,
    /// The kvm-clock page.
    pub(crate) page: Fact<PvclockPage>,
    /// How long ago the page's time stamp was taken, s, where that can be
    /// told; it may have been updated since.
    pub(crate) page_age_s: Option<f64>,
    /// Who steers, and how.
    pub(crate) adjtimex: Fact<Adjtimex>,
    /// What else can tell what happened.
    pub(crate) signs: Vec<Sign>,
    /// Pairs of clocks that are not compared, and why.
    pub(crate) not_compared: Vec<String>,
}

/// Something that can tell what happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Sign {
    /// `VMClock`
    pub(crate) what: String,
    /// Why it is not watched; null where it is.
    pub(crate) why_not: Option<String>,
}

impl Line {
    /// What happened at `at_ns` by CLOCK_MONOTONIC, its time of day by the
    /// look that told of it.
    pub(super) fn at(at_ns: u64, event: Said, look: &Sample) -> Self {
        let ago_ns = look.monotonic_ns.saturating_sub(at_ns);
        Self {
            at_unix_ns: look.unix_ns.and_then(|now_ns| now_ns.checked_sub(ago_ns)),
            at_monotonic_ns: at_ns,
            event,
        }
    }
}

impl Line {
    /// A summary that says how many entries the journal did not take.
    pub(super) fn with_not_in_journal(mut self, lost: Option<u64>) -> Self {
        if let Said::Summary(summary) = &mut self.event {
            summary.not_in_journal = lost;
        }
        self
    }
}

/// ns in s.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
