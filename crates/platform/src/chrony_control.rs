//! Telling a chronyd: what the time is, through its reference clock socket,
//! and what to do, through its client.

pub mod command;
pub mod feed;

pub use command::{CommandAddress, CommandError, Commander, PATIENCE};
pub use feed::{Feed, FeedError};
