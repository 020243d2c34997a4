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

mod reply;
mod tracking;

use core::ops::Deref;

pub use reply::{ReplyError, ReplyStatus, acknowledgement, tracking};
pub use tracking::{ErrorBound, Tracking, TrackingLeap};

/// Length of the longest datagram that a client of this protocol subset
/// receives: the reply to [`ChronydRequest::Tracking`].
pub const MAX_REPLY_BYTES: usize = 104;

/// The version of the protocol: chrony 3.0 and later.
const VERSION: u8 = 6;

// Samples for a reference clock of chronyd's driver SOCK.
//
// ```text
// refclock SOCK /run/chrony.parachron.sock refid PRCH poll 0 filter 1 delay 1e-4
// ```
//
// chronyd creates that socket, a Unix datagram socket. A sample is its
// `struct sock_sample` (refclock_sock.c) in the machine's own byte order and
// names no error: `delay` in the line above does, for all samples. Without
// `poll 0 filter 1` chronyd collects samples for 16 s before it uses them.

/// Length of a sample where `long` has 64 bits.
pub const SAMPLE_BYTES: usize = 40;

/// Marks a sample: "SOCK".
const MAGIC: u32 = 0x534f_434b;

/// The sample that CLOCK_REALTIME was `offset_ns` behind the true time when it
/// showed `realtime_ns` since 1970, of which chronyd takes the microseconds.
/// It announces no leap second.
pub fn encode_sample(realtime_ns: u64, offset_ns: i64) -> [u8; SAMPLE_BYTES] {
    let realtime_us = realtime_ns / 1000;
    let mut bytes = [0; SAMPLE_BYTES];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(realtime_us / 1_000_000).to_ne_bytes());
    put(8, &(realtime_us % 1_000_000).to_ne_bytes());
    put(16, &(offset_ns as f64 / 1e9).to_ne_bytes());
    // At 24 and 28: no pulse per second, no leap second; at 32: unused.
    put(36, &MAGIC.to_ne_bytes());
    bytes
}

/// A number as chronyd transmits it: 7 bits of exponent *e* and 25 bits of
/// coefficient *c*, both in two's complement, for *c · 2^(e − 25)*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Float(pub u32);

impl Float {
    const fn exponent(self) -> i32 {
        (self.0.cast_signed() >> 25) - 25
    }

    const fn coefficient(self) -> i32 {
        (self.0 << 7).cast_signed() >> 7
    }

    /// Its exact value.
    #[allow(clippy::cast_sign_loss, reason = "the biased exponent is from 934 to 1061")]
    pub fn value(self) -> f64 {
        let power = f64::from_bits(((1023 + self.exponent()) as u64) << 52);
        f64::from(self.coefficient()) * power
    }

    /// Its absolute value in billionths, rounded up; `u64::MAX` where that is
    /// too small for it.
    pub fn abs_billionths(self) -> u64 {
        // Less than 2^55, shifted left by 38 at most.
        let billionths = u128::from(self.coefficient().unsigned_abs()) * 1_000_000_000;
        let shift = self.exponent().unsigned_abs();
        let scaled =
            if self.exponent() < 0 { billionths.div_ceil(1 << shift) } else { billionths << shift };
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sample_has_the_layout_of_chronyds_struct() {
        let bytes = encode_sample(1_795_000_000_250_000_999, -50_000_000);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(8)), (1_795_000_000, 250_000));
        assert_eq!(f64::from_bits(word(16)).to_bits(), (-0.05f64).to_bits());
        assert_eq!((half(24), half(28), half(32), half(36)), (0, 0, 0, 0x534f_434b));
    }

    #[test]
    fn numbers_are_rounded_up_and_saturate() {
        let billionths = |number| Float(number).abs_billionths();
        // 1 · 2^(1 − 25), which is 59.6 billionths; the same below 0; 2^-63 / 2.
        assert_eq!(billionths(1 << 25 | 1), 60);
        assert_eq!(billionths(1 << 25 | 0x1ff_ffff), 60);
        assert_eq!(billionths(64 << 25 | 1), 1);
        assert_eq!(billionths(0), 0);
        // 2^24 · 2^(63 − 25).
        assert_eq!(billionths(63 << 25 | 0x100_0000), u64::MAX);
        // 1: 2^23 · 2^(2 − 25).
        assert_eq!(billionths(2 << 25 | 0x80_0000), 1_000_000_000);
        assert_eq!(Float(2 << 25 | 0x80_0000).value().to_bits(), 1f64.to_bits());
        assert_eq!(Float(2 << 25 | 0x180_0000).value().to_bits(), (-1f64).to_bits());
    }

    proptest! {
        #[test]
        fn the_value_is_what_powers_of_two_make_of_it(number in any::<u32>()) {
            let exponent = (number.cast_signed() >> 25) - 25;
            let coefficient = (number << 7).cast_signed() >> 7;
            let mut value = f64::from(coefficient);
            for _ in 0..exponent.unsigned_abs() {
                value = if exponent < 0 { value / 2.0 } else { value * 2.0 };
            }
            prop_assert_eq!(Float(number).value().to_bits(), value.to_bits());
            let billionths = Float(number).abs_billionths() as f64;
            let expected = value.abs() * 1e9;
            if billionths < 1e18 {
                prop_assert!(billionths >= expected * (1.0 - 1e-12));
                prop_assert!(billionths <= expected * (1.0 + 1e-12) + 1.0);
            } else {
                prop_assert!(expected > 0.9e18);
            }
        }
    }
}
