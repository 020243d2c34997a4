//! Replies: what belongs to which request, and what chronyd refuses.

use core::fmt;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyStatus {
    /// It tried, and could not: it may not set the clock, for example.
    Failed,
    /// It does not accept this request from this client: all that changes
    /// something must come over its Unix socket.
    NotAuthorised,
    /// It does not know the request.
    Invalid,
    /// It has no such source: for `burst`, no server at all.
    NoSuchSource,
    /// Its configuration does not enable it.
    NotEnabled,
    /// Another status, by its number.
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

impl fmt::Display for ReplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => write!(f, "it failed"),
            Self::NotAuthorised => write!(f, "not authorised"),
            Self::Invalid => write!(f, "it does not know this command"),
            Self::NoSuchSource => write!(f, "no such source"),
            Self::NotEnabled => write!(f, "not enabled in its configuration"),
            Self::Other(number) => write!(f, "status {number} of its protocol"),
        }
    }
}

/// Why a datagram is not the expected reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// It has another length than that reply.
    Length {
        /// Its bytes.
        found: usize,
        /// Those of the reply.
        expected: usize,
    },
    /// It is not a reply: its packet type.
    PacketType(u8),
    /// It replies to another request: its sequence number.
    Sequence(u32),
    /// It is of another version of the protocol.
    Version(u8),
    /// It replies to another command: its number.
    Command(u16),
    /// It is in another format: its number.
    Format(u16),
    /// chronyd refuses the request, or could not carry it out.
    Refused(ReplyStatus),
}

impl ReplyError {
    /// Whether the datagram has nothing to do with the request, so that the
    /// reply may still come.
    pub const fn is_unrelated(&self) -> bool {
        matches!(self, Self::Length { .. } | Self::PacketType(_) | Self::Sequence(_))
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "malformed reply: {found} bytes, expected {expected}")
            }
            Self::PacketType(found) => {
                write!(f, "malformed reply: packet type {found}, expected {REPLY}")
            }
            Self::Sequence(found) => {
                write!(f, "reply to another request: sequence number {found}")
            }
            Self::Version(found) => {
                write!(f, "protocol version {found}, expected {VERSION} (chrony 3.0 or later)")
            }
            Self::Command(found) => write!(f, "reply to another command: number {found}"),
            Self::Format(found) => write!(f, "reply in an unknown format: number {found}"),
            Self::Refused(status) => status.fmt(f),
        }
    }
}

impl core::error::Error for ReplyError {}

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
