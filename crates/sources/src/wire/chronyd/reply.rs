//! Replies: what belongs to which request, and what chronyd refuses.

use crate::wire::chronyd::tracking::Tracking;
use crate::wire::chronyd::{ChronydRequest, MAX_REPLY_BYTES, VERSION};

/// The packet type of a reply.
const REPLY: u8 = 2;
/// The reply's header: all there is of one without data.
const HEADER: usize = 28;
/// Reply formats.
const FORMAT_NULL: u16 = 1;
const FORMAT_TRACKING: u16 = 5;

/// Why chronyd did not carry out a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyStatus {
    /// It tried, and could not: it may not set the clock, for example.
    #[error("it failed")]
    Failed,
    /// It does not accept this request from this client: all that changes
    /// something must come over its Unix socket.
    #[error("not authorised")]
    NotAuthorised,
    /// It does not know the request.
    #[error("it does not know this command")]
    Invalid,
    /// It has no such source: for `burst`, no server at all.
    #[error("no such source")]
    NoSuchSource,
    /// Its configuration does not enable it.
    #[error("not enabled in its configuration")]
    NotEnabled,
    /// Another status, by its number.
    #[error("status {0} of its protocol")]
    Other(u16),
}

impl ReplyStatus {
    const fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Failed,
            2 => Self::NotAuthorised,
            3 => Self::Invalid,
            4 => Self::NoSuchSource,
            6 => Self::NotEnabled,
            other => Self::Other(other),
        }
    }
}

/// Why a datagram is not the expected reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// It has another length than that reply.
    #[error("malformed reply: {found} bytes, expected {expected}")]
    Length {
        /// Its bytes.
        found: usize,
        /// Those of the reply.
        expected: usize,
    },
    /// It is not a reply: its packet type.
    #[error("malformed reply: packet type {0}, expected {REPLY}")]
    PacketType(u8),
    /// It replies to another request: its sequence number.
    #[error("reply to another request: sequence number {0}")]
    Sequence(u32),
    /// It is of another version of the protocol.
    #[error("protocol version {0}, expected {VERSION} (chrony 3.0 or later)")]
    Version(u8),
    /// It replies to another command: its number.
    #[error("reply to another command: number {0}")]
    Command(u16),
    /// It is in another format: its number.
    #[error("reply in an unknown format: number {0}")]
    Format(u16),
    /// chronyd refuses the request, or could not carry it out.
    #[error("{0}")]
    Refused(ReplyStatus),
}

impl ReplyError {
    /// Whether the datagram has nothing to do with the request, so that the
    /// reply may still come.
    pub const fn is_unrelated(&self) -> bool {
        matches!(self, Self::Length { .. } | Self::PacketType(_) | Self::Sequence(_))
    }
}

/// Parses the reply to the [`ChronydRequest::Tracking`] with this sequence number.
///
/// # Errors
/// It is not that reply, or chronyd refused.
pub fn tracking(datagram: &[u8], sequence: u32) -> Result<Tracking, ReplyError> {
    let format = check(datagram, ChronydRequest::Tracking, sequence)?;
    if format != FORMAT_TRACKING {
        return Err(ReplyError::Format(format));
    }
    let wrong_length = |_| ReplyError::Length { found: datagram.len(), expected: MAX_REPLY_BYTES };
    Ok(Tracking::decode(datagram.try_into().map_err(wrong_length)?))
}

/// Parses the reply to a request that only has an effect.
///
/// # Errors
/// It is not that reply, or chronyd refused or failed.
pub fn acknowledgement(
    datagram: &[u8],
    request: ChronydRequest,
    sequence: u32,
) -> Result<(), ReplyError> {
    match check(datagram, request, sequence)? {
        FORMAT_NULL => Ok(()),
        other => Err(ReplyError::Format(other)),
    }
}

/// The format of a successful reply to this request.
fn check(datagram: &[u8], request: ChronydRequest, sequence: u32) -> Result<u16, ReplyError> {
    let Some(header) = datagram.first_chunk::<HEADER>() else {
        return Err(ReplyError::Length { found: datagram.len(), expected: HEADER });
    };
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let found = u32::from(number(16)) << 16 | u32::from(number(18));
    if header[1] != REPLY {
        Err(ReplyError::PacketType(header[1]))
    } else if found != sequence {
        Err(ReplyError::Sequence(found))
    } else if header[0] != VERSION {
        Err(ReplyError::Version(header[0]))
    } else if number(4) != request.command() {
        Err(ReplyError::Command(number(4)))
    } else if number(8) != 0 {
        Err(ReplyError::Refused(ReplyStatus::from_number(number(8))))
    } else {
        Ok(number(6))
    }
}
