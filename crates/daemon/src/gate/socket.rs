//! Where the gate is closed and opened by request: a Unix stream socket for root and the
//! daemon's user alone, as whoever may connect can stop the workload.
//!
//! # Protocol
//! A client sends [`GateRequest::bytes`] and reads a line: `closed: …`, `open: …` or
//! `error: …`. The reply to a thaw comes when the gate is open.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::status_socket::{connect, exchange, listen};

/// Where the daemon serves `parachron gate`, unless its configuration has another path.
pub const PATH: &str = "/run/parachron/gate.sock";

/// A client sends its request at once: it is not waited for longer.
const REQUEST_LIMIT: Duration = Duration::from_millis(50);

/// Clients that wait for the opening.
const MOST_CLIENTS: usize = 16;

/// What a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateRequest {
    /// Freeze the workload: a snapshot is about to be taken.
    Freeze,
    /// Thaw it, once the clock is measured and right.
    Thaw,
}

impl GateRequest {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Freeze, Self::Thaw];

    /// What a client sends.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Freeze => b"freeze\n",
            Self::Thaw => b"thaw\n",
        }
    }
}

/// Asks the daemon at `path`; its reply, at most 4 KB of it.
///
/// # Errors
/// None listens there, or it does not reply within `limit`.
pub fn ask(path: &Path, request: GateRequest, limit: Duration) -> io::Result<String> {
    let reply = exchange(path, request.bytes(), limit, 4096)?;
    Ok(reply.trim_end().to_owned())
}

/// Whether a daemon listens at `path`.
pub(super) fn is_served(path: &Path) -> bool {
    // One that is too busy to take a client listens too.
    match connect(path) {
        Ok(_) => true,
        Err(why) => !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
    }
}

/// Listens.
#[derive(Debug)]
pub(crate) struct GateSocket {
    path: PathBuf,
    listener: UnixListener,
    waiting: Vec<UnixStream>,
}

impl GateSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// Somebody listens there, or the folder is not ours to write.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let listener = listen(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(Self { path: path.to_owned(), listener, waiting: Vec::new() })
    }

    /// The request of the next client; one that sends none has its connection closed.
    pub(super) fn take_request(&mut self) -> Option<(GateRequest, UnixStream)> {
        let (mut stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(REQUEST_LIMIT)).ok()?;
        stream.set_write_timeout(Some(REQUEST_LIMIT)).ok()?;
        let mut received = [0; 16];
        let length = stream.read(&mut received).ok()?;
        let request = GateRequest::ALL.into_iter().find(|one| *one.bytes() == received[..length]);
        if request.is_none() {
            reply(stream, "error: expected \"freeze\" or \"thaw\" and an end of line");
            return None;
        }
        request.map(|request| (request, stream))
    }

    pub(super) fn await_opening(&mut self, client: UnixStream) {
        if self.waiting.len() < MOST_CLIENTS {
            self.waiting.push(client);
        } else {
            reply(client, "error: too many clients wait for the gate to open");
        }
    }

    pub(super) fn report_opening(&mut self, text: &str) {
        self.waiting.drain(..).for_each(|client| reply(client, text));
    }
}

/// A client that has gone needs no reply.
pub(super) fn reply(mut client: UnixStream, text: &str) {
    let _ = client.write_all(format!("{text}\n").as_bytes());
}

impl AsFd for GateSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for GateSocket {
    fn drop(&mut self) {
        // It may be gone already, with its folder.
        let _ = fs::remove_file(&self.path);
    }
}
