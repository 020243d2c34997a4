//! What a client checks of a reply.

use super::{Packet, SERVER, UNSYNCHRONISED};

/// A server this far from its reference clock is none, in 2^-16 s: 16 s (RFC 5905, figure 27,
/// MAXDISP).
const FARTHEST: u64 = 16 << 16;

/// Strata of servers end here; 16 is one without a source.
const MOST_STRATA: u8 = 15;

/// Why a packet gives a client no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableReply {
    /// No reply.
    #[error("mode {0}, expected {SERVER}, a server's")]
    Mode(u8),
    /// A kiss-o'-death: stop, or ask less often (RFC 5905, section 7.4).
    #[error("a kiss-o'-death")]
    Kiss([u8; 4]),
    /// The server reports that its clock is not synchronised.
    #[error("the server is not synchronised")]
    Unsynchronised,
    /// None of a server with a source.
    #[error("stratum {0}, expected 1 to {MOST_STRATA}")]
    Stratum(u8),
    /// Of another version of the protocol.
    #[error("version {0}, expected 1 to 4")]
    Version(u8),
    /// It states no time.
    #[error("it contains no time of transmission")]
    NoTime,
    /// The server's clock may be off by so much that its time is of no use.
    #[error("its root distance is {ms} ms, expected less than 16000 ms")]
    RootDistance {
        /// Half the root delay and the root dispersion, ms.
        ms: u64,
    },
    /// The clock was corrected after it showed this time.
    #[error("its reference time is later than its time of transmission")]
    ReferenceLater,
}

impl Packet {
    /// How far the server may be off, in 2^-16 s.
    fn root_distance(&self) -> u64 {
        u64::from(self.root_delay / 2) + u64::from(self.root_dispersion)
    }

    /// The same, ns.
    pub fn root_distance_ns(&self) -> u64 {
        // At most 6,444 s: 47 bits by 30.
        ((u128::from(self.root_distance()) * 1_000_000_000) >> 16) as u64
    }

    /// The code of a kiss-o'-death, four letters. A chronyd without a source has stratum 0 and
    /// no code.
    pub fn kiss(&self) -> Option<[u8; 4]> {
        (self.stratum == 0 && self.reference_id[0] != 0).then_some(self.reference_id)
    }

    /// Whether a client may take its time, as RFC 5905 demands it in appendix A.5.1.1. Whether it
    /// replies to the client's own request, `origin` shows.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), UnusableReply> {
        if self.mode != SERVER {
            return Err(UnusableReply::Mode(self.mode));
        }
        // Before the leap indicator, which is 3 in a kiss.
        if let Some(code) = self.kiss() {
            return Err(UnusableReply::Kiss(code));
        }
        if self.leap == UNSYNCHRONISED {
            return Err(UnusableReply::Unsynchronised);
        }
        if !(1..=4).contains(&self.version) {
            return Err(UnusableReply::Version(self.version));
        }
        if !(1..=MOST_STRATA).contains(&self.stratum) {
            return Err(UnusableReply::Stratum(self.stratum));
        }
        if self.transmit.is_none() {
            return Err(UnusableReply::NoTime);
        }
        if self.root_distance() >= FARTHEST {
            return Err(UnusableReply::RootDistance { ms: self.root_distance_ns() / 1_000_000 });
        }
        let later = self.reference.0.wrapping_sub(self.transmit.0).cast_signed();
        if !self.reference.is_none() && later > 0 {
            return Err(UnusableReply::ReferenceLater);
        }
        Ok(())
    }
}
