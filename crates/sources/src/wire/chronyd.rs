#![doc = include_str!("chronyd/README.md")]
//!
//! # Layout
//! All numbers are big-endian. A request is a header of 20 bytes and its
//! arguments, padded with zeroes to the length of its reply; a reply is a
//! header of 28 bytes and its data (chrony's candm.h and pktlength.c).
//!
//! | at | request | reply |
//! | --- | --- | --- |
//! | 0, 1 | version 6; packet type 1 | version 6; packet type 2 |
//! | 4 | command | command |
//! | 6 | attempt | reply format |
//! | 8 | sequence number | status, 0 for success |
//! | 16 | | sequence number of the request |

mod float;
mod reply;
mod request;
pub mod sock;
mod tracking;

pub use float::Float;
pub use reply::{ReplyError, ReplyStatus, acknowledgement, tracking};
pub use request::{ChronydDatagram, ChronydRequest};
pub use tracking::{ErrorBound, Tracking, TrackingLeap};

/// Length of the longest datagram that a client of this protocol subset
/// receives: the reply to [`ChronydRequest::Tracking`].
pub const MAX_REPLY_BYTES: usize = 104;

/// The version of the protocol: chrony 3.0 and later.
const VERSION: u8 = 6;
