//! Samples for chronyd's reference clock socket.
//!
//! ```text
//! refclock SOCK /run/chrony.parachron.sock refid PRCH poll 0 filter 1 delay 1e-4
//! ```
//!
//! chronyd makes the socket while it is still root, for root alone to write to,
//! and takes messages of refclock_sock.c's `struct sock_sample`. A sample names
//! no error: `delay` in the line above does, once for all. Without `poll 0
//! filter 1` chronyd gathers samples for 16 s before it believes them.
//!
//! A sample never announces a leap second: PTP clocks, a host's word and the
//! RTC do not tell of one, and chronyd goes by a majority of its sources. One
//! that is to know of it reads its own list (`leapsectz` or `leapseclist`,
//! `man 5 chrony.conf`), which overrules them all.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use facts::Unknown;
use units::{ClockPair, OffsetBound};

/// What marks a sample: "SOCK".
const MAGIC: u32 = 0x534f_434b;

/// Length of a sample where `long` has 64 bits.
const SAMPLE_BYTES: usize = 40;

/// A chronyd's reference clock socket.
#[derive(Debug)]
pub struct Feed {
    path: PathBuf,
    socket: UnixDatagram,
}

/// Why a sample did not reach chronyd.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// CLOCK_REALTIME cannot be read.
    #[error(transparent)]
    Clock(#[from] Unknown),
    /// There is no such socket, or nobody behind it, or it is not ours to
    /// write to.
    #[error("{path}: {error}")]
    Socket {
        /// The socket.
        path: String,
        /// The system's own words.
        error: io::Error,
    },
}

impl Feed {
    /// The socket that chronyd made at `path`. Whether somebody listens is
    /// found out by each sample anew, as chronyd may be started later, or
    /// again.
    ///
    /// # Errors
    /// This process gets no socket.
    pub fn to(path: &Path) -> Result<Self, FeedError> {
        let open = || {
            let socket = UnixDatagram::unbound()?;
            // A chronyd that hangs is not waited for.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), socket })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands chronyd an offset measured a moment ago; the clock must not have
    /// been set since.
    ///
    /// # Errors
    /// Nobody takes it.
    pub fn sample(&self, offset: &OffsetBound) -> Result<(), FeedError> {
        let bytes = encode(offset, sources::now()?);
        let sent = self.socket.send_to(&bytes, &self.path);
        sent.map(drop).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> FeedError {
    FeedError::Socket { path: path.display().to_string(), error }
}

/// `struct sock_sample`: when it was measured, by the system's clock, in
/// seconds and microseconds; the true time minus the system's, s; that it is
/// not a pulse; no leap second; four bytes unused; the mark.
fn encode(offset: &OffsetBound, now: ClockPair) -> [u8; SAMPLE_BYTES] {
    let age_ns = now.monotonic_ns.saturating_sub(offset.at_monotonic_ns);
    let at_us = now.realtime_ns.saturating_sub(age_ns) / 1000;
    let mut bytes = [0; SAMPLE_BYTES];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(at_us / 1_000_000).to_ne_bytes());
    put(8, &(at_us % 1_000_000).to_ne_bytes());
    put(16, &(offset.offset_ns as f64 / 1e9).to_ne_bytes());
    put(36, &MAGIC.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: OffsetBound =
        OffsetBound { offset_ns: -50_000_000, bound_ns: 9, at_monotonic_ns: 7_000_000_000 };
    const NOW: ClockPair =
        ClockPair { monotonic_ns: 7_250_000_000, realtime_ns: 1_795_000_000_500_000_999 };

    #[test]
    fn a_sample_lies_as_the_daemon_reads_it() {
        let bytes = encode(&OFFSET, NOW);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        // A quarter of a second before now.
        assert_eq!((word(0), word(8)), (1_795_000_000, 250_000));
        assert_eq!(f64::from_bits(word(16)).to_bits(), (-0.05f64).to_bits());
        assert_eq!((half(24), half(28), half(32), half(36)), (0, 0, 0, 0x534f_434b));
    }

    #[test]
    fn a_sample_reaches_who_listens_and_else_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed.sock");
        let feed = Feed::to(&path).unwrap();
        let error = feed.sample(&OFFSET).unwrap_err().to_string();
        assert_eq!(error, format!("{}: No such file or directory (os error 2)", path.display()));
        let listener = UnixDatagram::bind(&path).unwrap();
        feed.sample(&OFFSET).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(listener.recv(&mut bytes).unwrap(), SAMPLE_BYTES);
        drop(listener);
        assert!(feed.sample(&OFFSET).is_err());
    }
}
