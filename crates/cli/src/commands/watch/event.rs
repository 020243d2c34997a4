//! What happened, and when: a line of `parachron watch --format json`.

use instruments::steps::page::PageUpdate;
use platform::fact::Fact;
use platform::facts::hardware::PvclockPage;
use platform::facts::steering::Adjtimex;
use pvclock::kvm_clock::TimeInfo;
use schemars::JsonSchema;
use serde::Serialize;

use super::steering::Move;
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
    pub(crate) event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The watch began: the first line.
    Started(Box<Started>),
    /// The kvm-clock page was updated.
    PageUpdate(Update),
    /// The kvm-clock page can be read from now on.
    PageThere {
        /// What it holds.
        page: PvclockPage,
    },
    /// The kvm-clock page cannot be read any more.
    PageGone {
        /// Why.
        why: String,
    },
    /// One clock moved against another by more than its rate.
    Step {
        /// The one.
        clock: String,
        /// The other.
        against: String,
        /// By how much, ns.
        step_ns: f64,
        /// The truth is within ± this, ns.
        bound_ns: f64,
    },
    /// The TSC's rate by CLOCK_MONOTONIC_RAW changed.
    Rate {
        /// Before, Hz.
        before_hz: f64,
        /// Since, Hz.
        after_hz: f64,
    },
    /// The kernel took another clock source.
    Source {
        /// Before.
        before: String,
        /// Since.
        after: String,
    },
    /// Somebody steered the clock.
    Adjtimex {
        /// What moved.
        moves: Vec<Move>,
    },
    /// No look was taken for longer than the interval: this process was not
    /// run, or the machine stood still.
    Late {
        /// Time without a look, s, by CLOCK_MONOTONIC.
        unwatched_s: f64,
    },
    /// The watch ended: the last line.
    Summary(Summary),
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
    /// Pairs of clocks that are not compared, and why.
    pub(crate) not_compared: Vec<String>,
}

/// An update of the kvm-clock page.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Update {
    /// Updates since the last line, by the version; null where it went back.
    pub(crate) updates: Option<u32>,
    /// The page's version now.
    pub(crate) version: u32,
    /// Time by the new page minus time by the old one, at the TSC of the
    /// update, ns; null where one of them tells none.
    pub(crate) step_ns: Option<i64>,
    /// Why there is no step.
    pub(crate) no_step: Option<String>,
    /// Time since the last update seen, s; null for the first.
    pub(crate) since_last_s: Option<f64>,
    /// Fields that differ.
    pub(crate) changed: Vec<Field>,
}

/// A field of the page, by its name in the kernel's header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Field {
    /// `tsc_timestamp`
    pub(crate) field: String,
    /// Before.
    pub(crate) before: i128,
    /// Since.
    pub(crate) after: i128,
}

impl Update {
    pub(super) fn new(update: &PageUpdate, now: &TimeInfo, since_last_ns: Option<u64>) -> Self {
        Self {
            updates: update.updates,
            version: now.version,
            step_ns: update.step_ns.ok(),
            no_step: update.step_ns.err().map(|error| error.to_string()),
            since_last_s: since_last_ns.map(seconds),
            changed: update
                .changed
                .iter()
                .map(|change| Field {
                    field: change.field.to_owned(),
                    before: change.before,
                    after: change.after,
                })
                .collect(),
        }
    }
}

/// The page's contents as a fact.
pub(super) fn page(info: &TimeInfo) -> PvclockPage {
    PvclockPage {
        version: info.version,
        tsc_timestamp: info.tsc_timestamp,
        system_time_ns: info.system_time.0,
        tsc_to_system_mul: info.scale.mul(),
        tsc_shift: info.scale.shift(),
        flags: info.flags.0,
    }
}

/// ns in s.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
