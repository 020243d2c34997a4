//! What was seen, corrected and refused: a line of `parachron keep --format
//! json`.

use disruptions::Disruption;
use facts::steering::TimeKeeperKind;
use keeper::{Cause, Correction, Policy, Refusal};
use schemars::JsonSchema;
use serde::Serialize;

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
    /// Keeping began: the first line.
    Started(Box<Started>),
    /// Something happened to this machine's time.
    Disruption(Disruption),
    /// Somebody said on the host's socket that the machine was stopped.
    Resumed,
    /// What came in on the host's socket was not listened to.
    NotHeard {
        /// Why.
        why: String,
    },
    /// A source does not answer, or not with a time to go by.
    Silent {
        /// Which.
        source: String,
        /// Why.
        why: String,
    },
    /// A source answers again.
    Answers {
        /// Which.
        source: String,
    },
    /// The clock was corrected.
    Corrected(Corrected),
    /// A correction was tried and failed.
    Failed {
        /// What was tried.
        how: How,
        /// By how much, ns.
        by_ns: i64,
        /// Why it failed.
        why: String,
    },
    /// Somebody set the clock while the sources were asked: what they said is
    /// worthless, and they are asked anew.
    SetMeanwhile {
        /// What was not done.
        how: How,
        /// By how much, ns.
        by_ns: i64,
    },
    /// The clock is off, and is not corrected.
    Refused {
        /// By how much it is off.
        #[serde(flatten)]
        basis: Basis,
        /// Why it is not corrected.
        why: Refusal,
    },
    /// Another program that keeps the clock was started: it is left to it.
    StandsAside {
        /// Which.
        keeper: TimeKeeperKind,
    },
    /// The clock is right: once after each start, disruption and step.
    InOrder(Basis),
    /// Keeping ended: the last line.
    Summary(Summary),
}

/// What is kept, and how.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Started {
    /// This program's version.
    pub(crate) version: String,
    /// Nothing is corrected, only said.
    pub(crate) dry_run: bool,
    /// Time from look to look, s.
    pub(crate) interval_s: f64,
    /// What is gone by.
    pub(crate) policy: Policy,
    /// The sources, the best kind first.
    pub(crate) sources: Vec<String>,
    /// What was looked for in vain.
    pub(crate) not_used: Vec<NotUsed>,
    /// Who else may set the clock.
    pub(crate) beside: Vec<TimeKeeperKind>,
}

/// A source that is not used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NotUsed {
    /// Which.
    pub(crate) source: String,
    /// Why.
    pub(crate) why: String,
}

/// The ways to correct a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum How {
    /// At once.
    Step,
    /// Bit by bit, by 500 µs a second.
    Slew,
    /// chronyd was asked to step.
    AskedChronyd,
}

/// What a correction rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Basis {
    /// What to add to the clock, ns: positive where it is behind.
    pub(crate) by_ns: i64,
    /// The truth is within ± this, ns.
    pub(crate) bound_ns: u64,
    /// The source that says so.
    pub(crate) source: String,
    /// How many sources agree, itself included.
    pub(crate) agreeing: usize,
    /// Of how many that have a say.
    pub(crate) of_sources: usize,
    /// What made us look; null for plain drift.
    pub(crate) cause: Option<Cause>,
}

impl Basis {
    pub(crate) fn new(correction: &Correction, source: &str) -> Self {
        Self {
            by_ns: correction.by_ns,
            bound_ns: correction.bound_ns,
            source: source.to_owned(),
            agreeing: correction.agreeing.0,
            of_sources: correction.agreeing.1,
            cause: correction.cause,
        }
    }
}

/// A correction that was made.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Corrected {
    /// In which way.
    pub(crate) how: How,
    /// It was only said: a dry run.
    pub(crate) dry_run: bool,
    /// The time of day just before, ns since 1970.
    pub(crate) before_unix_ns: Option<u64>,
    /// The time of day just after, ns since 1970.
    pub(crate) after_unix_ns: Option<u64>,
    /// By how much, and why.
    #[serde(flatten)]
    pub(crate) basis: Basis,
}

/// What was done in all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Time kept, s, by CLOCK_MONOTONIC.
    pub(crate) kept_s: f64,
    /// Looks taken.
    pub(crate) looks: u64,
    /// Disruptions told.
    pub(crate) disruptions: u64,
    /// Questions to sources.
    pub(crate) asked: u64,
    /// Of them answered.
    pub(crate) answered: u64,
    /// Steps made.
    pub(crate) steps: u64,
    /// Slews begun.
    pub(crate) slews: u64,
    /// Steps that chronyd was asked for.
    pub(crate) asked_chronyd: u64,
    /// Samples that chronyd was fed.
    pub(crate) fed_chronyd: u64,
    /// Corrections that failed.
    pub(crate) failed: u64,
    /// Refusals told.
    pub(crate) refused: u64,
    /// The largest step made, ns.
    pub(crate) largest_step_ns: u64,
}
