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
mod measured;

pub use frame::{
    FRAME_BYTES, FrameLeap, FrameScale, HostClock, HostTimeFrame, MAGIC, Reason, TimeAnswer,
};
pub use guest::{GuestExchange, Heard, MIN_INTERVAL_NS, RETRIES, ROUNDS, TIMEOUT_NS};
pub use measured::{EARLIEST_NS, LONGEST_DELAY_NS, Refused};
pub use pvclock::units::Malformed;

/// The port of AF_VSOCK on which a guest listens by default: NTP's. To have one up to
/// 1023 takes CAP_NET_BIND_SERVICE (`__vsock_bind_connectible`, net/vmw_vsock/af_vsock.c),
/// so that no other user's process has it first, and is told what the host says.
pub const VSOCK_PORT: u32 = 123;

// Frames out of a stream, which has no boundaries: a connection's and a serial port's
// bytes come in pieces of any length.

/// The frame that is under way on a stream.
///
/// ```
/// use sources::wire::hosttime::{HostTimeFrame, Incoming, Reason};
///
/// let frame = HostTimeFrame::Notice(Reason::Resumed);
/// let mut incoming = Incoming::default();
/// let mut whole = None;
/// for piece in frame.encode().chunks(20) {
///     incoming.space()[..piece.len()].copy_from_slice(piece);
///     whole = incoming.filled(piece.len())?;
/// }
/// assert_eq!(whole, Some(frame));
/// # Ok::<(), sources::wire::hosttime::Malformed>(())
/// ```
#[derive(Debug, Clone)]
pub struct Incoming {
    bytes: [u8; FRAME_BYTES],
    filled: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: [0; FRAME_BYTES], filled: 0 }
    }
}

impl Incoming {
    /// Where the bytes that come next are to be put: as many as the frame still takes, and
    /// so never none.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// So many bytes were put at the beginning of [`Incoming::space`]; the frame, once it is
    /// whole. Then the next one begins.
    ///
    /// # Errors
    /// What came is no frame, which its first bytes may show before the others are there. The
    /// next byte begins a frame again, though on a stream it hardly does: whoever reads it
    /// leaves it, or waits for its other end to begin anew.
    pub fn filled(&mut self, length: usize) -> Result<Option<HostTimeFrame>, Malformed> {
        self.filled = self.filled.saturating_add(length).min(FRAME_BYTES);
        let begun = self.filled.min(MAGIC.len());
        if self.bytes[..begun] == MAGIC[..begun] && self.filled < FRAME_BYTES {
            return Ok(None);
        }
        // Nothing of it is left, so that an error states nothing but what came.
        let Self { bytes, .. } = core::mem::take(self);
        HostTimeFrame::parse(&bytes).map(Some)
    }
}

#[cfg(test)]
mod tests;
