//! A datagram socket to chronyd, over UDP or between paths.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a chronyd takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChronydAddress {
    /// Its Unix socket: `/run/chrony/chronyd.sock`.
    Unix(PathBuf),
    /// Its UDP port: for queries only.
    Udp(SocketAddr),
}

impl std::fmt::Display for ChronydAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Udp(address) => address.fmt(f),
        }
    }
}

/// Connected: it receives from chronyd only.
#[derive(Debug)]
pub(super) enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram, #[allow(dead_code, reason = "removed with the socket")] BoundSocket),
}

impl Socket {
    pub(super) fn connect(address: &ChronydAddress) -> io::Result<Self> {
        match address {
            ChronydAddress::Udp(address) => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(Self::Udp(socket))
            }
            ChronydAddress::Unix(server) => {
                // First, so that nothing is created where no chronyd listens.
                UnixDatagram::unbound()?.connect(server)?;
                let path = BoundSocket(reply_path(server));
                let socket = UnixDatagram::bind(&path.0)?;
                allow_replies(&path.0)?;
                socket.connect(server)?;
                Ok(Self::Unix(socket, path))
            }
        }
    }

    /// Sends it, unless the queue of a chronyd that hangs is full.
    pub(super) fn send(&self, datagram: &[u8], until: Instant) -> io::Result<()> {
        let Some(timeout) = remaining(until) else { return Ok(()) };
        none_in_time(match self {
            Self::Udp(socket) => socket.send(datagram),
            Self::Unix(socket, _) => {
                socket.set_write_timeout(Some(timeout))?;
                socket.send(datagram)
            }
        })
        .map(drop)
    }

    /// The length of what comes before `until`.
    pub(super) fn receive(&self, buffer: &mut [u8], until: Instant) -> io::Result<Option<usize>> {
        let Some(timeout) = remaining(until) else { return Ok(None) };
        none_in_time(match self {
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.recv(buffer)
            }
            Self::Unix(socket, _) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.recv(buffer)
            }
        })
    }
}

/// The time until then, if any.
fn remaining(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn none_in_time(transferred: io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    match transferred {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of our socket, next to chronyd's: in a folder that both reach even
/// where chronyd's service hides others from it, and that its AppArmor profile
/// lists (`/run/chrony/*`). chronyd cannot reply to an abstract address.
fn reply_path(server: &Path) -> PathBuf {
    let name = format!("parachron.{:016x}.sock", RandomState::new().hash_one(0));
    server.with_file_name(name)
}

/// Removed when dropped.
#[derive(Debug)]
pub(super) struct BoundSocket(PathBuf);

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // It may not have been created.
        let _ = fs::remove_file(&self.0);
    }
}

/// Lets chronyd, which may run as another user, write to our socket.
///
/// The folder belongs to that user, who could put a link to another file in
/// its place: so the inode is held open, is verified to be a socket of ours
/// without a second name, and only then changed.
fn allow_replies(path: &Path) -> io::Result<()> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let held: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = held.metadata()?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.file_type().is_socket() || !ours || metadata.nlink() != 1 {
        let why = format!("{}: replaced while it was created", path.display());
        return Err(io::Error::other(why));
    }
    let descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
    fs::set_permissions(descriptor, fs::Permissions::from_mode(0o666))
}
