//! A clock for programs: it reads as fast as the TSC and tells
//! CLOCK_MONOTONIC's time.
//!
//! ```
//! let start = clock::Instant::now();
//! let took: std::time::Duration = start.elapsed();
//!
//! let now = clock::SystemTime::now();
//! match (now.earliest(), now.latest()) {
//!     (Some(earliest), Some(latest)) => println!("from {earliest:?} to {latest:?}"),
//!     _ => println!("about {:?}; nobody vouches for it", now.time()),
//! }
//! # assert!(took < std::time::Duration::from_secs(60));
//! ```
//!
//! A clock that counts the TSC by a rate measured once wanders away from the
//! system's by some ppm, and by seconds after a migration. This one lays time
//! out ahead in short segments, and each new one is steered by a fresh look
//! at the system's clock: see [`Clock`] for how and when.
//!
//! Module by module, from the ground up: [`segment`] and [`sample`] are the
//! arithmetic, [`steering`] makes segments of samples, [`maintenance`] adds
//! the time of day ([`realtime`]) and its error ([`bound`]), all of it pure;
//! [`published`] hands the result to readers. Above them stand the few system
//! calls and [`Clock`].

pub mod bound;
mod clock;
mod counter;
mod instant;
mod keeper;
pub mod maintenance;
pub mod published;
pub mod realtime;
pub mod sample;
pub mod segment;
mod status;
pub mod steering;
mod system;
mod system_time;
mod vmclock;

pub use clock::{Clock, Settings, shared};
pub use instant::Instant;
pub use keeper::Keeper;
pub use status::{Source, Status};
pub use steering::{Disruption, Distrust};
pub use system_time::SystemTime;

#[cfg(test)]
mod simulation;
