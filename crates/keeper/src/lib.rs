//! Keeping the time of day right: disruptions and measured offsets in,
//! corrections by policy out. Pure: the clock that is corrected is handed in.
//!
//! Whoever drives a [`Keeper`] looks at the machine now and then, and in
//! between asks it [what to do](Keeper::next) until it has nothing more:
//!
//! ```
//! use keeper::{Action, Keeper, Policy, Reading, SourceKind};
//!
//! let mut keeper = Keeper::new(Policy::default(), &[SourceKind::VmClock]);
//! let now_ns = 1_000_000_000; // CLOCK_MONOTONIC
//! keeper.look(now_ns, &[]);
//! assert_eq!(keeper.next(now_ns), Some(Action::Measure(vec![0])));
//! // The machine was paused for a minute: its clock is behind.
//! let reading = Reading { offset_ns: 60_000_000_000, bound_ns: 1000, at_ns: now_ns };
//! keeper.measured(0, now_ns, Some(reading));
//! let Some(Action::Step(correction)) = keeper.next(now_ns) else { panic!() };
//! assert_eq!(correction.by_ns, 60_000_000_000);
//! keeper.corrected(now_ns, true);
//! assert_eq!(keeper.next(now_ns), None);
//! ```
//!
//! Times are CLOCK_MONOTONIC: nobody sets it, the keeper neither.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod action;
mod allowance;
mod choice;
mod keeper;
mod policy;
mod slewing;
mod source;
mod system_clock;

pub use action::{Action, Cause, Correction, Refusal};
pub use keeper::Keeper;
pub use policy::{Hand, Policy};
pub use slewing::{SLEW_PPM, Slewing};
pub use source::{Reading, SourceKind};
pub use system_clock::SystemClock;
