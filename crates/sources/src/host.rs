//! A Unix datagram socket for the host's time, sent by a guest agent or a VMM's
//! hook, where the host has no other channel into the guest.
//!
//! # Protocol
//! A datagram is one message, at most 128 bytes of ASCII, with or without an
//! end of line:
//!
//! ```text
//! time 1795000000.123456789          the time is this now
//! time 1795000000.123 +- 0.002       the same, give or take 2 ms
//! resumed                            the machine was stopped, and runs again
//! ```
//!
//! `time` is seconds since 1970, with up to nine digits after the point; it
//! means the moment at which the datagram was sent, which the kernel notes.
//! Without a bound its error is taken to be a second. `resumed` is a reason to
//! check the clock; it may come before or after a time. There is no reply.
//!
//! Only messages of root and of this process's user are accepted, by the
//! kernel's credentials (SCM_CREDENTIALS); the socket's file is for its owner
//! alone. A message that waited unread for more than a second is rejected: with
//! the clock set meanwhile, it is not known when it was sent.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, setsockopt, sockopt};

use units::{ClockPair, CrossTimestamp, OffsetBound, TimeInterval, TimeReading};

use crate::SourceError;
use crate::source::now;

mod message;

pub use message::{Malformed, Message};

/// How long a time is valid, and how long one may wait to be read, ns.
const FRESH_NS: u64 = 1_000_000_000;

/// Datagrams read in one call, so that a flood does not stall the caller.
const MOST_AT_ONCE: u32 = 64;

/// A socket that receives a host's messages.
#[derive(Debug)]
pub struct HostSocket {
    path: PathBuf,
    socket: UnixDatagram,
    /// When it was read last: what is received now was sent since.
    read_at: ClockPair,
    /// Received, and not used yet.
    offset: Option<OffsetBound>,
    /// CLOCK_MONOTONIC of the last time message, ns.
    last_ns: Option<u64>,
    resumed: bool,
    rejected: Option<Rejected>,
}

/// Why a datagram was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Its sender may not send the time.
    #[error("from user {uid}, who is neither root nor user {ours}")]
    Sender {
        /// Who sent it.
        uid: u32,
        /// Who may send it besides root.
        ours: u32,
    },
    /// It is no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It waited too long, or the clock was set meanwhile.
    #[error("{}", stale(*age_ns))]
    Stale {
        /// Its age by CLOCK_REALTIME.
        age_ns: i128,
    },
    /// Its time is out of range.
    #[error("{0}")]
    OutOfRange(String),
}

fn stale(age_ns: i128) -> String {
    let age_s = age_ns as f64 / 1e9;
    match age_ns {
        0.. => format!("message is {age_s:.1} s old (limit 1 s): send it again"),
        _ => format!(
            "message is from {:.1} s in the future: the clock was set meanwhile; send it again",
            -age_s
        ),
    }
}

impl HostSocket {
    /// Listens at `path`. A socket that a previous process left there is
    /// removed; one that a process listens at is not.
    ///
    /// # Errors
    /// Something else is there, or the folder is not writable.
    pub fn bind(path: &Path) -> io::Result<Self> {
        remove_leftover(path)?;
        let socket = UnixDatagram::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            read_at: linux::clock::pair()?,
            offset: None,
            last_ns: None,
            resumed: false,
            rejected: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `resumed` was received since the last call.
    pub fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }

    /// Why the last datagram that was rejected was, once.
    pub fn take_rejected(&mut self) -> Option<Rejected> {
        self.rejected.take()
    }

    /// Reads the messages that wait; does not wait itself. Whether one was
    /// accepted.
    ///
    /// To be called regularly though nothing waits, and after the clock was
    /// set: where it was set since the last call, it is not always known whether
    /// a message is from before or after.
    ///
    /// # Errors
    /// The socket cannot be read.
    pub fn receive_all(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(datagram) = self.receive()? else { break };
            let ours = rustix::process::geteuid().as_raw();
            let now = linux::clock::pair()?;
            match accept(&datagram, ours, (self.read_at, now)) {
                Ok(Accepted::Time(offset)) => {
                    (self.offset, self.last_ns) = (Some(offset), Some(offset.at_monotonic_ns));
                }
                Ok(Accepted::Resumed) => self.resumed = true,
                Err(why) => {
                    self.rejected = Some(why);
                    continue;
                }
            }
            is_any = true;
        }
        self.read_at = linux::clock::pair()?;
        Ok(is_any)
    }

    /// The host's time minus CLOCK_REALTIME, by the last message; once, for
    /// then the clock may be corrected by it.
    ///
    /// # Errors
    /// No message of the last second, or it was used already.
    pub fn offset(&mut self) -> Result<OffsetBound, SourceError> {
        let path = self.path.display().to_string();
        self.receive_all().map_err(|error| crate::unknown(&path, &error))?;
        let now_ns = self.read_at.monotonic_ns;
        let age_ns = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let fresh = self.offset.take().filter(|it| age_ns(it.at_monotonic_ns) <= FRESH_NS);
        let last_age_ms = self.last_ns.map(|last_ns| age_ns(last_ns) / 1_000_000);
        fresh.ok_or(SourceError::NoMessage { path, last_age_ms })
    }

    /// The host's time now, by [`HostSocket::offset`], between two stamps.
    ///
    /// # Errors
    /// As [`HostSocket::offset`], or its time is before 1970.
    pub fn read<S>(&mut self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        let OffsetBound { offset_ns, bound_ns, .. } = self.offset()?;
        let before = stamp();
        let realtime_ns = now()?.realtime_ns;
        let after = stamp();
        let before_1970 = || SourceError::Before1970 { device: self.path.display().to_string() };
        let shown_ns = realtime_ns.checked_add_signed(offset_ns).ok_or_else(before_1970)?;
        let utc = TimeInterval::around(shown_ns, bound_ns);
        let realtime_ns = (realtime_ns, realtime_ns);
        let cross_timestamp = Some(CrossTimestamp { shown_ns, realtime_ns, raw_ns: None });
        Ok(TimeReading { before, utc, shown_ns: (shown_ns, shown_ns), cross_timestamp, after })
    }

    fn receive(&self) -> io::Result<Option<Datagram>> {
        // One byte more, which a message too long runs into.
        let mut bytes = [0; message::LIMIT_BYTES + 1];
        let mut space = nix::cmsg_space!(libc::timespec, libc::ucred);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let fd = self.socket.as_raw_fd();
        let received = match recvmsg::<UnixAddr>(fd, &mut parts, Some(&mut space), flags) {
            Ok(received) => received,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let length = received.bytes;
        let (mut uid, mut sent_ns) = (None, None);
        for attached in received.cmsgs()? {
            match attached {
                ControlMessageOwned::ScmCredentials(sender) => uid = Some(sender.uid()),
                ControlMessageOwned::ScmTimestampns(at) => sent_ns = nanoseconds(at),
                _ => {}
            }
        }
        let bytes = bytes[..length].to_vec();
        Ok(Some(Datagram { bytes, uid, sent_ns }))
    }
}

impl AsFd for HostSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        // A leftover is removed by the next process.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn remove_leftover(path: &Path) -> io::Result<()> {
    let is_socket = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type().is_socket(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let dead = is_socket
        && UnixDatagram::unbound()?
            .connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if dead { std::fs::remove_file(path) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

fn nanoseconds(at: nix::sys::time::TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(at.tv_sec()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(at.tv_nsec()).ok()?)
}

/// What was received.
struct Datagram {
    bytes: Vec<u8>,
    /// Who sent it; the kernel attaches it to each.
    uid: Option<u32>,
    /// CLOCK_REALTIME when it was sent, ns; the kernel attaches it to each.
    sent_ns: Option<u64>,
}

/// A message that was accepted.
#[derive(Debug, PartialEq, Eq)]
enum Accepted {
    Time(OffsetBound),
    Resumed,
}

/// The message of a datagram that user `ours` received, between the last read
/// and now.
fn accept(
    datagram: &Datagram,
    ours: u32,
    (read_at, now): (ClockPair, ClockPair),
) -> Result<Accepted, Rejected> {
    // Where one is missing, the worst is assumed.
    let uid = datagram.uid.unwrap_or(u32::MAX);
    if uid != 0 && uid != ours {
        return Err(Rejected::Sender { uid, ours });
    }
    let sent_ns = datagram.sent_ns.unwrap_or_default();
    match Message::parse(&datagram.bytes)? {
        Message::Resumed => Ok(Accepted::Resumed),
        Message::Time { since_1970_ns, error_ns } => {
            let age_ns = i128::from(now.realtime_ns) - i128::from(sent_ns);
            let Some(age) = u64::try_from(age_ns).ok().filter(|age| *age <= FRESH_NS) else {
                return Err(Rejected::Stale { age_ns });
            };
            let at_monotonic_ns = now.monotonic_ns.saturating_sub(age);
            let is_before = may_be_from_before(at_monotonic_ns, read_at, now);
            let shown_ns = since_1970_ns;
            let realtime_ns = (sent_ns, sent_ns);
            let reading = TimeReading {
                before: if is_before { read_at } else { now },
                utc: TimeInterval::around(shown_ns, error_ns),
                shown_ns: (shown_ns, shown_ns),
                cross_timestamp: Some(CrossTimestamp { shown_ns, realtime_ns, raw_ns: None }),
                after: now,
            };
            let offset = reading.offset().map_err(|error| Rejected::OutOfRange(error.to_string()));
            offset.map(|offset| Accepted::Time(OffsetBound { at_monotonic_ns, ..offset }))
        }
    }
}

/// Whether a message that was sent at `at_monotonic_ns`, if the clock was then as
/// it is now, can also have been sent before the clock was set.
fn may_be_from_before(at_monotonic_ns: u64, read_at: ClockPair, now: ClockPair) -> bool {
    let ahead = |at: ClockPair| i128::from(at.realtime_ns) - i128::from(at.monotonic_ns);
    let before_ns = i128::from(at_monotonic_ns) + ahead(now) - ahead(read_at);
    (i128::from(read_at.monotonic_ns)..=i128::from(now.monotonic_ns)).contains(&before_ns)
}

#[cfg(test)]
mod tests;
