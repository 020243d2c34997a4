#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chronyd;
pub mod configuration;
mod daemon;
mod discovery;
mod error;
mod kept_clock;
mod lock;
mod other_daemons;
mod polled;
mod realtime_offset;
mod settings;
pub mod status;
pub mod status_socket;
pub mod values;
pub mod words;

pub use daemon::Daemon;
pub use error::DaemonError;
pub use settings::{ChronydSettings, DiscoveredSource, Settings, SourceSettings};
