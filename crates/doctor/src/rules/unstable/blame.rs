//! Whose fault each cause is.

use super::cause::Cause;
use crate::fault::{HOST, LOAD, NOT_SHOWN, PAGE, REFERENCE, SLOW_REFERENCE, TEST, TICKS, hardware};

/// The sentence of a cause.
pub(super) fn sentence(cause: &Cause, guest: Option<bool>) -> &'static str {
    match cause {
        Cause::NotSynchronised
        | Cause::Warp
        | Cause::Halts
        | Cause::FollowsFrequency
        | Cause::NotCalibrated
        | Cause::Backward { .. }
        | Cause::SignLost { .. }
        | Cause::JumpedAhead { .. }
        | Cause::Stopped { by_page: false, .. }
        | Cause::WrongRate { .. }
        | Cause::OneCheck { .. }
        | Cause::HostBackward
        | Cause::Jumped { .. } => hardware(guest),
        Cause::Stopped { by_page: true, .. } => HOST,
        Cause::TickReference => TICKS,
        Cause::ReferenceSilent
        | Cause::ReferenceStands
        | Cause::ReferenceBackward { .. }
        | Cause::ReferenceWrong { .. } => REFERENCE,
        Cause::PageLeapt { .. } | Cause::PageOff { .. } => PAGE,
        Cause::ReferenceDiscarded { .. }
        | Cause::ReferenceWrapped { .. }
        | Cause::Overflow { .. }
        | Cause::Drifted { .. }
        | Cause::CheckLate { .. } => LOAD,
        Cause::ReadLate => SLOW_REFERENCE,
        Cause::Forced => TEST,
        Cause::Damaged { .. }
        | Cause::Unexplained { .. }
        | Cause::RateUnknown { .. }
        | Cause::NotLogged => NOT_SHOWN,
    }
}
