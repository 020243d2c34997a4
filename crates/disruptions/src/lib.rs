//! What happened to a machine's time: looks at its clocks in, disruptions
//! with their evidence out. Pure: whoever looks hands in what was seen.
//!
//! A [`Sample`] is what one moment shows. The [`Observer`] compares each look
//! with those before it and tells what moved, an [`Event`] each; what moved is
//! gathered as [`Evidence`] until it can be said what happened, and told as a
//! [`Disruption`]. What counts as which kind stands in `classify`.

mod classify;
mod disruption;
mod event;
mod evidence;
mod observer;
pub mod steering;

pub use disruption::{Disruption, Kind, Size};
pub use event::{Event, FieldChange, Happened, LateCause, PageUpdate, page_fact};
pub use evidence::Evidence;
pub use observer::{MONOTONIC, Observed, Observer, RAW, SLEW_SEEN_NS, TSC};
