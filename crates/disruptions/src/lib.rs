#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod classify;
mod disruption;
mod event;
mod evidence;
mod observer;
mod stamped;
pub mod steering;

pub use disruption::{Disruption, Kind, Size};
pub use event::{Event, FieldChange, Happened, LateCause, PageUpdate, page_fact};
pub use evidence::Evidence;
pub use observer::{MONOTONIC, Observed, Observer, RAW, SLEW_SEEN_NS, TSC};
pub use stamped::Stamped;
