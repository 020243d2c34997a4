#![doc = include_str!("hosttime/README.md")]
//!
//! # Layout
//! A frame is [`FRAME_BYTES`] long, all numbers big-endian; what a kind does
//! not use is zero.
//!
//! | at | type | field | notice | request | answer |
//! | --- | --- | --- | --- | --- | --- |
//! | 0 | 4 bytes | "PCHT" | x | x | x |
//! | 4 | u8 | version, 1 | x | x | x |
//! | 5 | u8 | kind: 1 notice, 2 request, 3 answer | x | x | x |
//! | 6 | u8 | reason: 0 periodic, 1 resumed, 2 restored, 3 migrated, 4 cold boot | x | | x |
//! | 7 | u8 | time scale: 0 UTC, 1 TAI | | | x |
//! | 8 | u8 | leap second at the end of the UTC day: 0 none, 1 inserted, 2 deleted | | | x |
//! | 9 | u8 | 1: leap seconds are smeared over hours | | | x |
//! | 10 | i16 | TAI − UTC, s; −32768 for unknown | | | x |
//! | 12 | 4 bytes | zero | | | |
//! | 16 | u64 | nonce | | x | x |
//! | 24 | u64 | the guest's clock when it sent the request, ns since 1970 | | x | x |
//! | 32 | u64 | the host's when it received that, ns of the scale since 1970 | | | x |
//! | 40 | u64 | the host's when it sent the answer | | | x |
//! | 48 | u64 | how far the host's clock may be off, ns; all ones for unknown | | | x |

mod frame;
mod guest;
mod incoming;
mod measured;

pub use frame::{
    FRAME_BYTES, FrameLeap, FrameScale, HostClock, HostTimeFrame, MAGIC, Reason, TimeAnswer,
};
pub use guest::{GuestExchange, Heard, MIN_INTERVAL_NS, RETRIES, ROUNDS, TIMEOUT_NS};
pub use incoming::Incoming;
pub use measured::{EARLIEST_NS, LONGEST_DELAY_NS, Refused};
pub use pvclock::units::Malformed;

/// The port of AF_VSOCK on which a guest listens by default: NTP's. To have one up to
/// 1023 takes CAP_NET_BIND_SERVICE (`__vsock_bind_connectible`, net/vmw_vsock/af_vsock.c),
/// so that no other user's process has it first, and is told what the host says.
pub const VSOCK_PORT: u32 = 123;
