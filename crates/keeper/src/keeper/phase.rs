//! The keeper's states.
//!
//! | phase | entered by | the clock is right | it is off |
//! | --- | --- | --- | --- |
//! | disturbed, by a cause | start, disruption, host, a source that moved | synchronised | corrected or refused |
//! | corrected | a step, by the kernel or chronyd | synchronised | corrected or refused |
//! | settled | an offset within the tolerance or twice its bound | nothing | corrected or refused |
//! | set by another | a set of the clock while it was settled, or again | settled | refused: it is not undone |
//!
//! Within a sample:
//!
//! | stage | decides by | goes on to |
//! | --- | --- | --- |
//! | local | the host's clock, where a disruption accounts for what it shows | servers |
//! | servers | all sources | done, or polls once more to confirm |
//! | done | nothing, until a source is measured | local or servers |

use disruptions::Kind;

use crate::action::CorrectionCause;

/// What is known of the clock.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeeperPhase {
    /// It may have been moved: nothing measured before counts.
    Disturbed(CorrectionCause),
    /// It was stepped, and not verified yet; what had disturbed it, if known.
    Corrected(Option<CorrectionCause>),
    /// It was measured, and was right.
    Settled,
    /// It was right, and another process set it: on purpose, as far as can be
    /// known.
    SetByAnother,
}

impl KeeperPhase {
    pub(super) fn cause(self) -> Option<CorrectionCause> {
        match self {
            Self::Disturbed(cause) => Some(cause),
            Self::Corrected(cause) => cause,
            Self::Settled => None,
            Self::SetByAnother => Some(CorrectionCause::Disruption(Kind::ClockSet.into())),
        }
    }
}

/// How far this sample's decision is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The host's clock may correct what a disruption accounts for.
    Local,
    /// All sources are decided by.
    Servers,
    /// Decided.
    Done,
}
