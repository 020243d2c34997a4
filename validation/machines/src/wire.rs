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
    /// The limit that the last wait exceeded.
    pub(crate) exceeded: Option<Duration>,
}

impl From<UnixStream> for Wire {
    fn from(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new(), exceeded: None }
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
        let received = self.receive_some(awaited, start, limit);
        self.exceeded = received.as_ref().err().filter(|why| why.is_late).map(|_| limit);
        received.map_err(|why| why.text)
    }

    fn receive_some(
        &mut self,
        awaited: &str,
        start: Instant,
        limit: Duration,
    ) -> Result<(), Interruption> {
        let left = limit.saturating_sub(start.elapsed());
        let timed_out = || {
            let received = String::from_utf8_lossy(&self.received);
            let limit_s = limit.as_secs_f64();
            let text = format!("no {awaited} within {limit_s} s, only {received:?}");
            Interruption { text, is_late: true }
        };
        let failed = |text| Interruption { text, is_late: false };
        if left.is_zero() {
            return Err(timed_out());
        }
        let mut bytes = [0; 4096];
        let read = self.stream.set_read_timeout(Some(left));
        match read.and_then(|()| self.stream.read(&mut bytes)) {
            Ok(0) => Err(failed(format!("waiting for {awaited}: {CLOSED}"))),
            Ok(length) => {
                self.received.extend_from_slice(&bytes[..length]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(timed_out()),
            Err(error) => Err(failed(format!("waiting for {awaited}: {error}"))),
        }
    }
}

/// Why nothing was received.
struct Interruption {
    text: String,
    is_late: bool,
}
