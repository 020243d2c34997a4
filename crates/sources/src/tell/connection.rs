//! A stream to a guest, on which nothing waits for longer than it may.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, VsockAddr, connect, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_error};
use rustix::net::{SendFlags, SocketAddrUnix};

use crate::tell::TellFailure;
use crate::tell::address::Address;

/// An open stream, and when all must be over.
#[derive(Debug)]
pub(crate) struct GuestConnection {
    fd: OwnedFd,
    limit: Duration,
    deadline: Instant,
}

/// The longest reply to CONNECT: `OK`, and a number.
const MAX_GREETING_BYTES: usize = 32;

/// Neither the clock nor a socket counts for ever.
const LONGEST: Duration = Duration::from_secs(86_400);

impl GuestConnection {
    /// Connects; all that follows has to be done within `limit` from now on.
    pub(crate) fn open(guest: &Address, limit: Duration) -> Result<Self, TellFailure> {
        let limit = limit.min(LONGEST);
        let deadline = Instant::now() + limit;
        let family = match guest {
            Address::Vsock { .. } => AddressFamily::Vsock,
            _ => AddressFamily::Unix,
        };
        let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let fd = fd.map_err(|why| TellFailure::Unreachable(why.into()))?;
        let mut connection = Self { fd, limit, deadline };
        connection.connect(guest).map_err(|why| match why {
            Errno::AGAIN => TellFailure::Unreachable(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("not within {:.1} s", limit.as_secs_f64()),
            )),
            why => TellFailure::Unreachable(why.into()),
        })?;
        if let Address::Unix { port, .. } = guest {
            connection.greet(*port)?;
        }
        Ok(connection)
    }

    /// EAGAIN where the time was up.
    fn connect(&self, guest: &Address) -> Result<(), Errno> {
        match guest {
            Address::Vsock { cid, port } => self.connect_vsock(*cid, *port),
            Address::Unix { path, .. } | Address::Port(path) | Address::Agent(path) => {
                self.connect_unix(path)
            }
        }
    }

    /// A listener with a full backlog keeps a Unix socket waiting for as long as sending
    /// may take. Without blocking it would be EAGAIN, and nothing to poll for.
    fn connect_unix(&self, path: &Path) -> Result<(), Errno> {
        set_socket_timeout(&self.fd, Timeout::Send, Some(self.limit))?;
        rustix::net::connect(&self.fd, &SocketAddrUnix::new(path)?)
    }

    /// AF_VSOCK goes by a limit of its own, 2 s, where it may block
    /// (VSOCK_DEFAULT_CONNECT_TIMEOUT, net/vmw_vsock/af_vsock.c). By that it also gives
    /// up where there is more time: the guest is not there yet.
    fn connect_vsock(&self, cid: u32, port: u32) -> Result<(), Errno> {
        ioctl_fionbio(&self.fd, true)?;
        match connect(self.fd.as_raw_fd(), &VsockAddr::new(cid, port)) {
            Ok(()) => {}
            Err(nix::Error::EINPROGRESS) => {
                self.wait_for_connection()?;
                socket_error(&self.fd)??;
            }
            Err(why) => return Err(Errno::from_raw_os_error(why as i32)),
        }
        ioctl_fionbio(&self.fd, false)
    }

    fn wait_for_connection(&self) -> Result<(), Errno> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
            match poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], Some(&left)) {
                Ok(0) => return Err(Errno::AGAIN),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// What Firecracker and cloud-hypervisor ask for before they connect to the
    /// guest (docs/vsock.md of Firecracker: host-initiated connections).
    fn greet(&mut self, port: u32) -> Result<(), TellFailure> {
        self.send(format!("CONNECT {port}\n").as_bytes())?;
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            self.receive(&mut byte, "reply to CONNECT").map_err(|why| match why {
                // The VMM closes then, some with what we sent unread.
                TellFailure::Broken(_) => TellFailure::Unreachable(io::Error::other(format!(
                    "nobody in the guest listens on port {port}"
                ))),
                why => why,
            })?;
            line.push(byte[0]);
            if line.len() > MAX_GREETING_BYTES {
                break;
            }
        }
        if line.starts_with(b"OK ") && line.ends_with(b"\n") {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        Err(TellFailure::Nonsense(format!("CONNECT {port}: unexpected reply {line:?}")))
    }

    /// The time that is left, if any is.
    fn remaining(&self, what: &'static str) -> Result<Duration, TellFailure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // No timeout is what zero means to the system.
        if left < Duration::from_micros(1) {
            return Err(TellFailure::Silent { what, limit: self.limit });
        }
        Ok(left)
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), TellFailure> {
        let what = "room for a frame: the guest does not read";
        while !bytes.is_empty() {
            let left = self.remaining(what)?;
            let sent = set_socket_timeout(&self.fd, Timeout::Send, Some(left))
                .and_then(|()| rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL));
            match sent {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(why) => return Err(TellFailure::Broken(why.into())),
            }
        }
        Ok(())
    }

    /// Receives what there is, at least a byte: how many.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut [u8],
        what: &'static str,
    ) -> Result<usize, TellFailure> {
        loop {
            let left = self.remaining(what)?;
            let received = set_socket_timeout(&self.fd, Timeout::Recv, Some(left))
                .and_then(|()| rustix::io::read(&self.fd, &mut *bytes));
            match received {
                Ok(0) => return Err(TellFailure::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => return Ok(length),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(why) => return Err(TellFailure::Broken(why.into())),
            }
        }
    }

    /// All must be over within `limit` from now on, if that is sooner.
    pub(crate) fn hurry(&mut self, limit: Duration) {
        self.deadline = self.deadline.min(Instant::now() + limit);
    }
}
