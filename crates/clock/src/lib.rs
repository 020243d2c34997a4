#![doc = include_str!("../README.md")]
//!
//! [`timeline`] is the arithmetic, pure; above it are the few system calls and
//! [`Clock`].

mod chronyd_poll;
mod clock;
mod clockbound;
mod counter;
mod instant;
mod kernel_clock;
mod maintainer;
mod settings;
mod shared;
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
pub use clock::Clock;
pub use instant::Instant;
pub use maintainer::Maintainer;
pub use settings::Settings;
pub use shared::shared;
pub use status::{Source, Status};
pub use system_time::SystemTime;
pub use timeline::bound::ErrorFrom;
pub use timeline::steering::{Disruption, Distrust};
