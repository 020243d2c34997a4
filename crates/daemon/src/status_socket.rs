//! Where a daemon is asked for its status: a Unix stream socket, open to all
//! users of the machine, who can ask and nothing else.
//!
//! # Protocol
//! A client sends [`REQUEST`], or `status within 10000000 ns` and an end of line, in one piece, and
//! reads a JSON document until the end of the stream: the [`crate::status::DaemonStatus`], or
//! `{"error": "…"}` where the request was another. While the clock may be off by more than that
//! bound, servers are polled sooner, as far as the limit of requests to them allows.
//!
//! # Bounds
//! Nobody waits for a client: a request is read once and a reply written once,
//! as far as the socket's buffer takes it, and the connection is closed. Of
//! clients that connect and send nothing the oldest goes for the next. Between
//! two samples so many are served; the others wait for the next sample.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net;

/// What a client sends.
pub const REQUEST: &[u8] = b"status\n";

/// The longest request is shorter.
const MOST_BYTES: usize = 64;

/// Clients that are connected at a time.
const MOST_CLIENTS: usize = 16;

/// Connections and requests that are handled between two samples: a hundred
/// monitors that ask each second; a flood of clients costs 0.2 % of a CPU.
const MOST_BETWEEN_SAMPLES: u32 = 128;

/// What a client waits.
const LIMIT: Duration = Duration::from_secs(2);

/// The name of the listener among the epoll's; clients' are counted from 1.
const LISTENER: u64 = 0;

/// A request of another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected \"status\" or \"status within N ns\", N a number, and an end of line, in one piece"
)]
pub struct NotARequest;

/// What a client sends that needs the clock to be right within `bound_ns`.
pub fn request(bound_ns: Option<u64>) -> Vec<u8> {
    bound_ns.map_or(REQUEST.to_vec(), |ns| format!("status within {ns} ns\n").into_bytes())
}

/// Reads a request as it came, which is anything; the bound that its client needs, ns.
///
/// ```
/// use daemon::status_socket::{REQUEST, NotARequest, parse};
/// assert_eq!((parse(REQUEST), parse(b"stop\n")), (Ok(None), Err(NotARequest)));
/// assert_eq!(parse(b"status within 10000000 ns\n"), Ok(Some(10_000_000)));
/// ```
///
/// # Errors
/// It is none.
pub fn parse(received: &[u8]) -> Result<Option<u64>, NotARequest> {
    let bound = received.strip_prefix(b"status within ").and_then(|it| it.strip_suffix(b" ns\n"));
    let bound_ns = bound.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    if request(bound_ns) == received { Ok(bound_ns) } else { Err(NotARequest) }
}

/// Asks the daemon at `path`, which is needed right within `bound_ns`; its reply, at most 1 MB
/// of it.
///
/// # Errors
/// None listens there, or it does not reply within two seconds.
pub fn ask(path: &Path, bound_ns: Option<u64>) -> io::Result<String> {
    exchange(path, &request(bound_ns), LIMIT, 1 << 20)
}

/// Sends a request to a daemon's socket; its reply, at most so many bytes of it.
///
/// # Errors
/// None listens there, or it does not reply within `limit`.
pub(crate) fn exchange(
    path: &Path,
    request: &[u8],
    limit: Duration,
    most_bytes: u64,
) -> io::Result<String> {
    let mut stream = connect(path)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(request)?;
    let mut reply = String::new();
    stream.take(most_bytes).read_to_string(&mut reply)?;
    Ok(reply)
}

/// Connects to a daemon's socket.
///
/// # Errors
/// None listens there, or it takes nobody within two seconds.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = net::socket_with(
        net::AddressFamily::UNIX,
        net::SocketType::STREAM,
        net::SocketFlags::CLOEXEC,
        None,
    )?;
    // Before it connects: a daemon that is stopped takes nobody, and its queue may be full.
    net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Send, Some(LIMIT))?;
    net::connect(&socket, &net::SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Listens at `path`, after removing what an earlier process left there.
///
/// # Errors
/// Somebody listens there, it is something else, or the folder is not ours
/// to write.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().mode(0o755).recursive(true).create(folder)?;
    }
    remove_leftover(path)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens.
#[derive(Debug)]
pub(crate) struct StatusSocket {
    path: PathBuf,
    listener: UnixListener,
    /// Readable while the listener or a client is.
    epoll: OwnedFd,
    clients: VecDeque<(u64, UnixStream)>,
    /// The name of the next client.
    next: u64,
    /// What is left to be handled until the next sample.
    left: u32,
}

impl StatusSocket {
    /// Listens at `path`, in place of what an earlier process left there.
    ///
    /// # Errors
    /// Somebody listens there, it is something else, or the folder is not ours
    /// to write.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let listener = listen(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let (clients, next, left) = (VecDeque::new(), LISTENER + 1, MOST_BETWEEN_SAMPLES);
        Ok(Self { path: path.to_owned(), listener, epoll, clients, next, left })
    }

    /// A sample was taken: so many may be served again.
    pub(crate) fn begin_sample(&mut self) {
        self.left = MOST_BETWEEN_SAMPLES;
    }

    /// Whether it is not to be waited for until the next sample.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Serves who is ready, with `status`; waits for nobody. The least bound that any of them
    /// needs, ns.
    pub(crate) fn serve(&mut self, mut status: impl FnMut() -> String) -> Option<u64> {
        let mut ready = Vec::with_capacity(MOST_CLIENTS + 1);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error can be a signal alone: the next wait reports it again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&now));
        let (mut reply, mut needed_ns) = (None, None);
        for name in ready.iter().map(|event| event.data.u64()) {
            self.left = self.left.saturating_sub(1);
            if name == LISTENER {
                self.accept();
            } else if let Some(at) = self.clients.iter().position(|(client, _)| *client == name)
                && let Some((_, mut stream)) = self.clients.remove(at)
            {
                let mut received = [0; MOST_BYTES];
                let length = stream.read(&mut received).unwrap_or(0);
                let reply: &String = match parse(&received[..length]) {
                    Ok(bound_ns) => {
                        needed_ns = needed_ns.into_iter().chain(bound_ns).min();
                        reply.get_or_insert_with(&mut status)
                    }
                    Err(why) => {
                        &(serde_json::json!({ "error": why.to_string() }).to_string() + "\n")
                    }
                };
                // Who does not read it in time gets what fits.
                let _ = stream.write(reply.as_bytes());
            }
        }
        needed_ns
    }

    /// Takes one connection: the next wait reports the others.
    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            // As many files are open as may be: those of waiting clients go first.
            self.clients.clear();
            return self.left = 0;
        };
        let data = EventData::new_u64(self.next);
        let flags = EventFlags::IN | EventFlags::RDHUP;
        if stream.set_nonblocking(true).is_ok()
            && epoll::add(&self.epoll, &stream, data, flags).is_ok()
        {
            self.clients.push_back((self.next, stream));
            self.next += 1;
        }
        if self.clients.len() > MOST_CLIENTS {
            self.clients.pop_front();
        }
    }
}

impl AsFd for StatusSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        // It may be gone already, with its folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket at which nobody listens.
fn remove_leftover(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
        Ok(there) if !there.file_type().is_socket() => {
            Err(io::Error::new(ErrorKind::AlreadyExists, "something else is there"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
            Err(why) => Err(why),
            Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        },
    }
}

#[cfg(test)]
mod tests;
