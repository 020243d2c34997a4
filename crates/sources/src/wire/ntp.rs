#![doc = include_str!("ntp/README.md")]
//!
//! # Layout
//! All numbers are big-endian (RFC 5905, figure 8).
//!
//! | at | field |
//! | --- | --- |
//! | 0 | leap indicator, 2 bits; version, 3 bits; mode, 3 bits |
//! | 1, 2, 3 | stratum; poll and precision, as powers of 2 s |
//! | 4, 8 | root delay and root dispersion, in 2^-16 s |
//! | 12 | reference ID: where the time comes from, or a kiss code |
//! | 16, 24, 32, 40 | reference, origin, receive and transmit time |

/// A packet's length without extensions and MAC.
pub const LENGTH: usize = 48;

/// Mode of a request.
pub const CLIENT: u8 = 3;
/// Mode of a reply.
pub const SERVER: u8 = 4;
/// The leap indicator of a server whose clock is not synchronised.
pub const UNSYNCHRONISED: u8 = 3;

/// A packet without extensions and MAC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packet {
    /// 1: the day's last minute has 61 s; 2: it has 59; 0: neither; [`UNSYNCHRONISED`].
    pub leap: u8,
    /// 4, or 3 of old programs.
    pub version: u8,
    /// [`CLIENT`], [`SERVER`], or another.
    pub mode: u8,
    /// Steps from a reference clock; 0 in a kiss-o'-death, 16 without a source.
    pub stratum: u8,
    /// The interval between requests, 2^poll s.
    pub poll: i8,
    /// The clock's precision, 2^precision s.
    pub precision: i8,
    /// Round trip to the reference clock, 2^-16 s.
    pub root_delay: u32,
    /// Largest error due to the reference clock, 2^-16 s.
    pub root_dispersion: u32,
    /// The server's source, or the code of a kiss-o'-death.
    pub reference_id: [u8; 4],
    /// When the clock was last corrected.
    pub reference: Timestamp,
    /// The transmit time of the request, repeated: of an interleaved reply its receive time.
    pub origin: Timestamp,
    /// When the request arrived at the server.
    pub receive: Timestamp,
    /// When the packet left.
    pub transmit: Timestamp,
}

impl Packet {
    /// The packet at the begin of these bytes; `None` of fewer than [`LENGTH`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk()?;
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let number = |at| u32::from_be_bytes(word(at));
        let time = |at| Timestamp(u64::from(number(at)) << 32 | u64::from(number(at + 4)));
        Some(Self {
            leap: bytes[0] >> 6,
            version: bytes[0] >> 3 & 7,
            mode: bytes[0] & 7,
            stratum: bytes[1],
            poll: bytes[2].cast_signed(),
            precision: bytes[3].cast_signed(),
            root_delay: number(4),
            root_dispersion: number(8),
            reference_id: word(12),
            reference: time(16),
            origin: time(24),
            receive: time(32),
            transmit: time(40),
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = self.leap << 6 | (self.version & 7) << 3 | self.mode & 7;
        bytes[1..4].copy_from_slice(&[
            self.stratum,
            self.poll.cast_unsigned(),
            self.precision.cast_unsigned(),
        ]);
        bytes[4..8].copy_from_slice(&self.root_delay.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.root_dispersion.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.reference_id);
        let times = [self.reference, self.origin, self.receive, self.transmit];
        for (field, time) in bytes[16..].chunks_exact_mut(8).zip(times) {
            field.copy_from_slice(&time.0.to_be_bytes());
        }
        bytes
    }

    /// A request with this number instead of a time of transmission: no server reads the time,
    /// and a program that does not see the request guesses the number once in 2^64 tries.
    pub fn request(number: u64) -> Self {
        Self { version: 4, mode: CLIENT, transmit: Timestamp(number), ..Self::default() }
    }
}

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: i128 = 2_208_988_800;
const S: i128 = 1_000_000_000;

/// A time, in 2^-32 s since the begin of an era: 1900, 7 February 2036, and so on. 0 is no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Of a time since 1970, rounded down: 0.25 s of 2026-11-18 11:06:40 is 0xeea8_0540_4000_0000.
    pub fn from_unix_ns(ns: i64) -> Self {
        let since_1900 = i128::from(ns) + UNIX_EPOCH_S * S;
        // The number of the era is cut.
        Self(((since_1900 << 32).div_euclid(S)) as u64)
    }

    /// ns since 1970, rounded down, in the era in which it is nearest to `near_ns`.
    pub fn unix_ns(self, near_ns: i128) -> i128 {
        let near = (near_ns << 32).div_euclid(S);
        let in_first_era = i128::from(self.0) - (UNIX_EPOCH_S << 32);
        let eras = (near - in_first_era + (1 << 63)) >> 64;
        ((in_first_era + (eras << 64)) * S) >> 32
    }

    /// From an `earlier` one to this, ns, rounded down; the end of an era may be between them.
    pub fn since_ns(self, earlier: Self) -> u64 {
        let elapsed = self.0.wrapping_sub(earlier.0);
        ((u128::from(elapsed) * S.unsigned_abs()) >> 32) as u64
    }

    /// Whether the field holds no time.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

// What a client checks of a reply.

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

#[cfg(test)]
mod tests;
