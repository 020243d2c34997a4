#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod action;
mod choice;
mod discipline;
pub mod event;
mod frequency;
mod gate;
mod keeper;
mod learnt;
mod line;
mod offset;
mod policy;
mod rate_limit;
mod slewing;
mod source;

pub use action::{Action, ClockError, Correction, CorrectionCause, Refusal};
pub use discipline::Adjustment;
pub use frequency::LearntFrequency;
pub use gate::{Gate, GateAction, GateCause, GateOpening};
pub use keeper::{
    Keeper, KeeperClockState, KeeperView, KeptBound, NextStep, RtcView, SourceState, SourceView,
    UNKNOWN_PPB,
};
pub use learnt::{Learnt, LearntError};
pub use line::{LineLoop, LineSteering};
pub use policy::{Corrector, Policy};
pub use slewing::{SLEW_PPM, Slewing};
pub use source::SourceKind;
pub use source::{Announced, AnnouncedScale};
