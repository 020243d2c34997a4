//! A VMClock page that states the time: what the host knows of it goes in, the content of
//! each VM's page comes out.
//!
//! [`HostTime`] is the host's: samples of its time sources in, each with a bound of its
//! error, and one line out, TAI by the host's TSC, with a bound that grows. [`HostVmClock`]
//! is a VM's: it writes that line in the guest's TSC, and raises the disruption marker.
//!
//! # The promise
//!
//! At any TSC from an update on, until the next or forever, the true time is within
//! what the page claims, if
//!
//! 1. fewer than half of the [known sources](TimeSettings::sources) lie, that is, are
//!    outside their own bounds. One of three is outvoted, one of two is not. Where an
//!    honest one is silent, either of the others may be the liar, and the bound shows it;
//! 2. the TSC's rate stays within [`TimeSettings::wander_ppb`] of its mean of the last
//!    minutes.
//!
//! # The sums
//!
//! ```text
//! time(TSC)  = time + (TSC − tsc) · period
//! error(TSC) = error + |TSC − tsc| · period error
//! period     = (time now − time at the anchor) / (TSC now − TSC at the anchor)
//! its error  = (error now + error at the anchor) / (TSC now − TSC at the anchor) + wander
//! ```
//!
//! For example 1024 s after the anchor, both known to 50 µs: 100 µs in 1024 s are
//! 98 ppb, with 1000 ppb of wander 1.1 ppm; an hour without any source adds 4 ms to the
//! bound.

mod host_time;
mod line;
mod page;

pub use host_time::{HostTime, LeapAnnouncement, TimeSample, TimeSettings};
pub use page::{GuestCounter, HostVmClock, PageUpdate, VmClockSettings};
