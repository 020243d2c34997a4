#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chronyd;
mod daemon;
mod discovery;
mod error;
mod kept_clock;
mod learnt;
mod lock;
mod other_daemons;
mod polled;
mod realtime_offset;
mod settings;

pub use daemon::Daemon;
pub use error::DaemonError;
pub use settings::{ChronydSettings, DiscoveredSource, Settings, SourceSettings};
