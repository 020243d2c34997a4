//! Requests.

use core::ops::Deref;

use crate::wire::chronyd::{MAX_REPLY_BYTES, VERSION};

/// The packet type of a request.
const REQUEST: u8 = 1;

/// Length of a request without arguments: that of its reply, which has no
/// data.
const EMPTY: usize = 28;
const ARGUMENTS_AT: usize = 20;
/// Two addresses of 20 bytes, two numbers.
const BURST: usize = ARGUMENTS_AT + 2 * 20 + 2 * 4;

/// The requests of this subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChronydRequest {
    /// How well it follows its reference (`chronyc tracking`). Any client may
    /// send this; the others are accepted on the Unix socket only.
    Tracking,
    /// Correct at once, by a step, what is still being slewed
    /// (`chronyc makestep`).
    MakeStep,
    /// Drop all measurements (`chronyc reset sources`; chrony 4.0 and later).
    ResetSources,
    /// Poll all servers soon, several times (`chronyc burst GOOD/MAX`).
    Burst {
        /// Stop after this many good measurements.
        good: u8,
        /// Send no more requests than this.
        max: u8,
    },
}

/// A request's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChronydDatagram {
    bytes: [u8; MAX_REPLY_BYTES],
    length: usize,
}

impl Deref for ChronydDatagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl ChronydRequest {
    /// Its name as a command of `chronyc`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracking => "tracking",
            Self::MakeStep => "makestep",
            Self::ResetSources => "reset sources",
            Self::Burst { .. } => "burst",
        }
    }

    /// Its number in the protocol.
    pub(crate) const fn command(self) -> u16 {
        match self {
            Self::Burst { .. } => 3,
            Self::Tracking => 33,
            Self::MakeStep => 43,
            Self::ResetSources => 66,
        }
    }

    /// The datagram to send. Its reply repeats `sequence`, which should be
    /// one that others cannot guess.
    pub fn encode(self, sequence: u32) -> ChronydDatagram {
        let mut bytes = [0; MAX_REPLY_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &[VERSION, REQUEST]);
        put(4, &self.command().to_be_bytes());
        put(8, &sequence.to_be_bytes());
        let length = match self {
            Self::Tracking => MAX_REPLY_BYTES,
            Self::MakeStep | Self::ResetSources => EMPTY,
            Self::Burst { good, max } => {
                // Mask and address of no family: all servers.
                put(BURST - 8, &u32::from(good).to_be_bytes());
                put(BURST - 4, &u32::from(max).to_be_bytes());
                BURST
            }
        };
        ChronydDatagram { bytes, length }
    }
}
