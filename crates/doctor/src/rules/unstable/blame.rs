//! Whose fault each cause is.

use super::cause::UnstableCause;
use crate::fault::{HOST, LOAD, NOT_SHOWN, PAGE, REFERENCE, SLOW_REFERENCE, TEST, TICKS, hardware};

/// The sentence of a cause.
pub(super) fn sentence(cause: &UnstableCause, guest: Option<bool>) -> &'static str {
    match cause {
        UnstableCause::NotSynchronised
        | UnstableCause::Warp
        | UnstableCause::Halts
        | UnstableCause::FollowsFrequency
        | UnstableCause::NotCalibrated
        | UnstableCause::Backward { .. }
        | UnstableCause::SignLost { .. }
        | UnstableCause::JumpedAhead { .. }
        | UnstableCause::Stopped { by_page: false, .. }
        | UnstableCause::WrongRate { .. }
        | UnstableCause::OneCheck { .. }
        | UnstableCause::HostBackward
        | UnstableCause::Jumped { .. } => hardware(guest),
        UnstableCause::Stopped { by_page: true, .. } => HOST,
        UnstableCause::TickReference => TICKS,
        UnstableCause::ReferenceSilent
        | UnstableCause::ReferenceStands
        | UnstableCause::ReferenceBackward { .. }
        | UnstableCause::ReferenceWrong { .. } => REFERENCE,
        UnstableCause::PageLeapt { .. } | UnstableCause::PageOff { .. } => PAGE,
        UnstableCause::ReferenceDiscarded { .. }
        | UnstableCause::ReferenceWrapped { .. }
        | UnstableCause::Overflow { .. }
        | UnstableCause::Drifted { .. }
        | UnstableCause::CheckLate { .. } => LOAD,
        UnstableCause::ReadLate => SLOW_REFERENCE,
        UnstableCause::Forced => TEST,
        UnstableCause::Damaged { .. }
        | UnstableCause::Unexplained { .. }
        | UnstableCause::RateUnknown { .. }
        | UnstableCause::NotLogged => NOT_SHOWN,
    }
}
