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
//! [`timeline`] is the arithmetic, pure; above it stand the few system calls
//! and [`Clock`].

mod chronyd_poll;
mod clock;
mod counter;
mod instant;
mod keeper;
mod settings;
mod sole;
mod status;
mod system;
mod system_time;
pub mod timeline;
mod vmclock;

/// The guide's programs, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/clock.md")]
struct Guide;

pub use chronyd_poll::LOCAL_CHRONYD;
pub use clock::{Clock, shared};
pub use instant::Instant;
pub use keeper::Keeper;
pub use settings::Settings;
pub use status::{Source, Status};
pub use system_time::SystemTime;
pub use timeline::bound::Voucher;
pub use timeline::steering::{Disruption, Distrust};
