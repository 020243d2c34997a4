//! Frames out of a stream, which has no boundaries: a connection's and a serial port's
//! bytes come in pieces of any length.

use pvclock::units::Malformed;

use crate::wire::hosttime::frame::{FRAME_BYTES, HostTimeFrame, MAGIC};

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
