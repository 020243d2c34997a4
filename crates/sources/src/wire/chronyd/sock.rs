//! Samples for a reference clock of chronyd's driver SOCK.
//!
//! ```text
//! refclock SOCK /run/chrony.parachron.sock refid PRCH poll 0 filter 1 delay 1e-4
//! ```
//!
//! chronyd creates that socket, a Unix datagram socket. A sample is its
//! `struct sock_sample` (refclock_sock.c) in the machine's own byte order and
//! names no error: `delay` in the line above does, for all samples. Without
//! `poll 0 filter 1` chronyd collects samples for 16 s before it uses them.

/// Length of a sample where `long` has 64 bits.
pub const SAMPLE_BYTES: usize = 40;

/// Marks a sample: "SOCK".
const MAGIC: u32 = 0x534f_434b;

/// The sample that CLOCK_REALTIME was `offset_ns` behind the true time when it
/// showed `realtime_ns` since 1970, of which chronyd takes the microseconds.
/// It announces no leap second.
pub fn encode(realtime_ns: u64, offset_ns: i64) -> [u8; SAMPLE_BYTES] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_layout_of_chronyds_struct() {
        let bytes = encode(1_795_000_000_250_000_999, -50_000_000);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(8)), (1_795_000_000, 250_000));
        assert_eq!(f64::from_bits(word(16)).to_bits(), (-0.05f64).to_bits());
        assert_eq!((half(24), half(28), half(32), half(36)), (0, 0, 0, 0x534f_434b));
    }
}
