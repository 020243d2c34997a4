//! A Unix socket of QEMU: every wait has a limit.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// What is said of a connection that has ended.
pub(crate) const CLOSED: &str = "QEMU closed the connection";

/// How long QEMU may take to create its sockets.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// Connects to a QEMU that was just started.
pub(crate) fn connect(path: &Path) -> Result<UnixStream, String> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() >= CONNECT => {
                return Err(format!("{}: {error}", path.display()));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A connection, and what it received.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    /// The bytes that were not consumed yet.
    pub(crate) received: Vec<u8>,
}

impl From<UnixStream> for Wire {
    fn from(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new() }
    }
}

impl Wire {
    /// Closes it for both ends.
    pub(crate) fn close(&self) {
        // An error means that the other end has closed it.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, name: &str, request: impl AsRef<[u8]>) -> Result<(), String> {
        self.stream.write_all(request.as_ref()).map_err(|error| format!("{name}: {error}"))
    }

    /// Waits for more bytes, within the limit counted from `start`.
    pub(crate) fn receive(
        &mut self,
        awaited: &str,
        start: Instant,
        limit: Duration,
    ) -> Result<(), String> {
        let left = limit.saturating_sub(start.elapsed());
        let timed_out = || {
            let received = String::from_utf8_lossy(&self.received);
            let limit_s = limit.as_secs_f64();
            format!("no {awaited} within {limit_s} s, only {received:?}")
        };
        if left.is_zero() {
            return Err(timed_out());
        }
        let mut bytes = [0; 4096];
        let read = self.stream.set_read_timeout(Some(left));
        match read.and_then(|()| self.stream.read(&mut bytes)) {
            Ok(0) => Err(format!("waiting for {awaited}: {CLOSED}")),
            Ok(length) => {
                self.received.extend_from_slice(&bytes[..length]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(timed_out()),
            Err(error) => Err(format!("waiting for {awaited}: {error}")),
        }
    }
}
