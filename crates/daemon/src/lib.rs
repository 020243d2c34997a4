#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod advice;
mod board;
mod chronyd;
mod clockbound;
pub mod configuration;
mod daemon;
mod discovery;
mod error;
pub mod exporter;
pub mod fleet;
pub mod gate;
mod host_time;
pub mod journal;
mod kept_clock;
mod learnt;
mod lock;
pub mod manager;
pub mod metrics;
mod other_daemons;
mod polled;
pub mod program;
mod realtime_offset;
mod settings;
pub mod status;
pub mod status_socket;
pub mod values;
pub mod words;

pub use board::StatusBoard;
pub use daemon::Daemon;
pub use discovery::check_sources;
pub use error::DaemonError;
pub use settings::{ChronydSettings, DiscoveredSource, GateSettings, Settings, SourceSettings};
