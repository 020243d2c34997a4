//! What the keeper wants done, and why.

use disruptions::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::source::{Reading, SourceKind};

/// Something for the driver to do. Sources are told by their place in the
/// list that the keeper was made with.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Ask these sources now, all at the same time, and tell
    /// [`crate::Keeper::measured`] of each.
    Measure(Vec<usize>),
    /// Step the clock, and tell [`crate::Keeper::corrected`].
    Step(Correction),
    /// Slew the clock, and tell [`crate::Keeper::corrected`].
    Slew(Correction),
    /// Have chronyd step the clock, and tell [`crate::Keeper::corrected`].
    AskChronyd {
        /// By how much it is off.
        by: Correction,
        /// What it measured until now is of no use: it is to measure anew.
        anew: bool,
    },
    /// Give chronyd this as a sample of a reference clock.
    FeedChronyd(Reading),
    /// Log that nothing is done, and why.
    Refuse(Correction, Refusal),
    /// Log that the clock is right: told once after each start, disruption
    /// and step. The correction is what is left.
    Settled(Correction),
}

/// A correction, and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// By how much, ns: positive where the clock is behind.
    pub by_ns: i64,
    /// The truth is this near, ns.
    pub bound_ns: u64,
    /// The source that says so.
    pub source: usize,
    /// How many sources agree with it, itself included, of how many.
    pub agreeing: (usize, usize),
    /// What made the clock wrong, where that is known.
    pub cause: Option<Cause>,
}

/// What made us look for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The keeper started.
    Start,
    /// Somebody who knows the host says that the machine was stopped.
    Told,
    /// Something happened to the machine's time.
    Disruption(Kind),
    /// A source of this kind moved against the clock, and nothing else showed
    /// it: a pause that stopped every clock of this machine.
    SourceMoved(SourceKind),
}

/// Why an error is not corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It is beyond the largest step.
    BeyondMaxStep {
        /// Which is this, ns.
        max_step_ns: u64,
    },
    /// There were steps enough for now.
    TooOften {
        /// The next is earned in this time, ns.
        wait_ns: u64,
    },
    /// The source has not said it twice.
    Unconfirmed,
    /// The sources contradict each other, and none is better than the others.
    Contradiction,
    /// It is the board's clock, and a better source was gone by since anything
    /// happened to time; it is silent now.
    WorseSource,
    /// It may not be set back, and is further ahead than a slew is good for.
    TooFarAhead {
        /// The slew would take so long, s.
        takes_s: u64,
    },
    /// chronyd is not to be asked for a step, or not for one backward.
    LeftToChronyd,
}

impl Refusal {
    /// Whether it is the same reason, whatever the figures.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether it stays so by itself, and is told once.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::WorseSource | Self::TooFarAhead { .. } | Self::LeftToChronyd)
    }
}
