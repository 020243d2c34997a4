//! What the keeper wants done, and why.

use disruptions::Kinds;
use pvclock::units::{LeapSecond, OffsetBound};
use schemars::JsonSchema;
use serde::Serialize;

use crate::discipline::Adjustment;
use crate::source::SourceKind;

/// What is known of a clock's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// It is off by no more than this, ns.
    pub max_ns: u64,
    /// It is probably off by this, ns.
    pub estimated_ns: u64,
}

/// Something for the driver to do. Sources are named by their index in the
/// list that the keeper was made with.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Poll these sources now, all at the same time, and call
    /// [`crate::Keeper::measured`] for each.
    Measure(Vec<usize>),
    /// Step the clock, and call [`crate::Keeper::corrected`].
    Step(Correction),
    /// Slew the clock, and call [`crate::Keeper::corrected`].
    Slew(Correction),
    /// Have chronyd step the clock, and call [`crate::Keeper::corrected`].
    Makestep {
        /// How far it is off.
        by: Correction,
        /// chronyd has to drop its measurements first and take new ones.
        restart: bool,
    },
    /// Set the frequency, slew the last microseconds, and call
    /// [`crate::Keeper::corrected`]. It is made while the clock is right, and
    /// is not worth a line in a log.
    Discipline(Adjustment),
    /// Have another daemon that disciplines the clock drop what it measured
    /// and measure anew: it does not know of a disruption, or of our step. No
    /// reply is expected.
    Restart,
    /// Report the clock's error to the kernel: it was measured just now. No
    /// reply is expected.
    SetError(ClockError),
    /// Report the clock's probable error to the kernel: it was not measured, and
    /// follows from what is known of its frequency. Or that nothing is known of it, since
    /// a disruption. No reply is expected.
    SetFigures {
        /// The largest error, ns; `None`: the kernel's own, which grows by itself.
        max_ns: Option<u64>,
        /// The probable one, ns.
        estimated_ns: u64,
    },
    /// Have the kernel carry out this leap second at the end of the UTC day, or
    /// none, and call [`crate::Keeper::corrected`].
    SetLeap(Option<LeapSecond>),
    /// Log that the counter is slower than it claims by this, beyond what the kernel's
    /// frequency holds. No reply is expected.
    WrongRate {
        /// What the kernel's clock would have to gain, ppb.
        ppb: f64,
    },
    /// Send chronyd this as a sample of a reference clock.
    FeedChronyd(OffsetBound),
    /// Log that the offset is not corrected, and why.
    Refuse(Correction, Refusal),
    /// Log that the clock is right: once after each start, disruption and
    /// step. The correction is the offset that is left.
    Synchronised(Correction),
}

impl Action {
    /// Whether it stays right where nothing measured counts any more.
    pub(crate) fn rests_on_no_measurement(&self) -> bool {
        match self {
            Self::Discipline(by) => by.frequency_ppb.is_none() && by.slew_ns == Some(0),
            Self::SetFigures { max_ns, .. } => max_ns.is_some(),
            Self::SetLeap(leap) => leap.is_none(),
            action => matches!(action, Self::Restart),
        }
    }
}

/// A correction, and what it is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// What to add to the clock, ns: positive where it is behind.
    pub by_ns: i64,
    /// The error of that is at most this, ns.
    pub bound_ns: u64,
    /// The selected source.
    pub source: usize,
    /// How many independent sources agree with it, itself included, of how
    /// many. The host counts once, however many clocks it offers.
    pub agreeing: (usize, usize),
    /// How many of these show the time, all but an RTC: its seconds agree with a server that is
    /// wrong by less, so with it alone no bound is shown.
    pub showing_time: usize,
    /// What made the clock wrong, where that is known.
    pub cause: Option<CorrectionCause>,
}

impl Correction {
    /// The offset that it corrects, as measured at `now_ns`.
    pub(crate) fn offset(&self, now_ns: u64) -> OffsetBound {
        let Self { by_ns: offset_ns, bound_ns, .. } = *self;
        OffsetBound { offset_ns, bound_ns, at_monotonic_ns: now_ns }
    }
}

/// Why all sources were polled at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectionCause {
    /// The keeper started.
    Start,
    /// The host reported that it resumed the machine.
    HostResumed,
    /// The workload is frozen until the clock is right.
    GateWaits,
    /// A disruption was detected.
    Disruption(Kinds),
    /// A source of this kind moved against the clock, and nothing else showed
    /// it: a pause that stopped every clock of this machine.
    SourceMoved(SourceKind),
}

/// Why an offset is not corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It is beyond the largest step, and neither a disruption nor a second
    /// source accounts for it.
    BeyondMaxStep {
        /// The largest step, ns.
        max_step_ns: u64,
    },
    /// No machine was away for so long, and the clock shows a date.
    BeyondLongestAbsence {
        /// The longest absence, ns.
        most_ns: u64,
    },
    /// As many steps were made as the policy allows for now.
    RateLimited {
        /// Time until the next step is allowed, ns.
        wait_ns: u64,
    },
    /// The source reported it once; a second sample has to confirm it.
    Unconfirmed,
    /// The sources contradict each other, and no majority agrees.
    Contradiction,
    /// Too few of the configured sources agree: the others could outvote
    /// them. No disruption accounts for the offset.
    TooFewAgree {
        /// So many have to agree.
        needed: usize,
        /// Of so many that are independent of each other.
        configured: usize,
    },
    /// It is one server's word, and nothing else accounts for the offset.
    LoneServer {
        /// The largest correction by one server, ns.
        most_ns: u64,
    },
    /// It is one server's word again, by which the clock was moved already, and no other
    /// source has shown it to be right since.
    LoneServerAgain {
        /// By so much it was moved, less 500 ppm of the time since, ns.
        moved_ns: u64,
        /// The most, this one included, ns.
        most_ns: u64,
        /// Time until it is allowed, ns.
        wait_ns: u64,
    },
    /// Another process set the clock while it was right: that is not undone.
    SetByAnother,
    /// The clock may not be set back, and is too far ahead to be slewed.
    TooFarAhead {
        /// The slew would take this long, s.
        takes_s: u64,
    },
    /// chronyd is not to be sent `makestep`, or not for a step backward.
    LeftToChronyd,
}

impl Refusal {
    /// Whether it is the same reason, whatever the figures.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether it holds until something changes, and is reported once.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::SetByAnother
                | Self::TooFewAgree { .. }
                | Self::LoneServer { .. }
                | Self::LoneServerAgain { .. }
                | Self::TooFarAhead { .. }
                | Self::LeftToChronyd
        )
    }
}
