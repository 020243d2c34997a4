//! Samples for chronyd's reference clock socket.
//!
//! chronyd creates the socket while it is still root, writable by root alone.
//! A sample never announces a leap second: PTP clocks, the host's socket and
//! the RTC do not announce any, and chronyd follows the majority of its
//! sources. It can read its own list (`leapsectz` or `leapseclist`, `man 5
//! chrony.conf`), which overrules them all.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::wire::chronyd;
use facts::Unknown;

use pvclock::units::{ClockPair, OffsetBound};

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
    /// There is no such socket, no process receives on it, or this user may
    /// not write to it.
    #[error("{path}: {error}")]
    Socket {
        /// The socket.
        path: String,
        /// The system's error.
        error: io::Error,
    },
}

impl Feed {
    /// The socket that chronyd created at `path`. Each sample looks for it
    /// again, as chronyd may be started later, or restarted.
    ///
    /// # Errors
    /// This process gets no socket.
    pub fn connect(path: &Path) -> Result<Self, FeedError> {
        let open = || {
            let socket = UnixDatagram::unbound()?;
            // Do not wait for a chronyd that hangs.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), socket })
    }

    /// Sends chronyd an offset measured a moment ago; the clock must not have
    /// been set since.
    ///
    /// # Errors
    /// No process receives it.
    pub fn sample(&self, offset: &OffsetBound) -> Result<(), FeedError> {
        let sent = self.socket.send_to(&encode(offset, crate::now()?), &self.path);
        sent.map(drop).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> FeedError {
    FeedError::Socket { path: path.display().to_string(), error }
}

fn encode(offset: &OffsetBound, now: ClockPair) -> [u8; chronyd::SAMPLE_BYTES] {
    let age_ns = now.monotonic_ns.saturating_sub(offset.at_monotonic_ns);
    chronyd::encode_sample(now.realtime_ns.saturating_sub(age_ns), offset.offset_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: OffsetBound =
        OffsetBound { offset_ns: -50_000_000, bound_ns: 9, at_monotonic_ns: 7_000_000_000 };
    const NOW: ClockPair =
        ClockPair { monotonic_ns: 7_250_000_000, realtime_ns: 1_795_000_000_500_000_999 };

    #[test]
    fn a_sample_is_of_when_it_was_measured() {
        // A quarter of a second before now.
        let expected = chronyd::encode_sample(1_795_000_000_250_000_999, -50_000_000);
        assert_eq!(encode(&OFFSET, NOW), expected);
    }

    #[test]
    fn a_sample_reaches_the_listener_or_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed.sock");
        let feed = Feed::connect(&path).unwrap();
        let error = feed.sample(&OFFSET).unwrap_err().to_string();
        assert_eq!(error, format!("{}: No such file or directory (os error 2)", path.display()));
        let listener = UnixDatagram::bind(&path).unwrap();
        feed.sample(&OFFSET).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(listener.recv(&mut bytes).unwrap(), chronyd::SAMPLE_BYTES);
        drop(listener);
        assert!(feed.sample(&OFFSET).is_err());
    }
}
