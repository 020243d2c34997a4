#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod classify;
mod clock_name;
mod disruption;
mod event;
mod evidence;
mod kinds;
mod observer;
mod stamped;
pub mod steering;
pub mod text;

pub use clock_name::{MONOTONIC, RAW, TSC};
pub use disruption::{Disruption, Kind, Size};
pub use event::{Event, FieldChange, Happened, LateCause, ObservedPageUpdate, page_fact, seconds};
pub use evidence::Evidence;
pub use kinds::Kinds;
pub use observer::{Observed, Observer, SLEW_SEEN_NS};
pub use stamped::Stamped;
