//! A Unix datagram socket for an agent or a VMM's hook on this machine.
//!
//! # Protocol
//! A datagram is a frame of `crate::wire::hosttime`, or one message of at most 128 bytes of
//! ASCII, with or without an end of line:
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
//! check the clock; it may come before or after a time. There is no reply to a
//! message; a request is sent to where the notice came from.
//!
//! Only those of root and of this process's user are accepted, by the kernel's
//! credentials (SCM_CREDENTIALS); the socket's file is for its owner alone. A
//! message that waited unread for more than a second is rejected: with the clock
//! set meanwhile, it is not known when it was sent.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::wire::hosttime::{FRAME_BYTES, GuestExchange, HostTimeFrame, MAGIC};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrLike, UnixAddr, recvmsg, sendto, setsockopt, sockopt,
};
use pvclock::units::{ClockPair, CrossTimestamp, Interval, OffsetBound, TimeReading};

use super::message::{self, HostMessage};
use super::told::{Rejected, ReportedTime, request};

/// How long a message may wait to be read, ns.
const FRESH_NS: u64 = 1_000_000_000;

/// Datagrams read in one call, so that a flood does not stall the caller.
const MOST_AT_ONCE: u32 = 64;

/// A socket that receives a host's messages and frames.
#[derive(Debug)]
pub(super) struct LocalSocket {
    path: PathBuf,
    socket: UnixDatagram,
    /// When it was read last: what is received now was sent since.
    read_at: ClockPair,
    guest: GuestExchange,
    /// Where the last notice came from.
    asks: Option<UnixAddr>,
}

impl LocalSocket {
    /// Listens at `path`. A socket that a previous process left there is
    /// removed; one that a process listens at is not.
    ///
    /// # Errors
    /// Something else is there, or the folder is not writable.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
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
            guest: GuestExchange::default(),
            asks: None,
        })
    }

    /// Reads what waits, and asks what is to be asked; does not wait.
    pub(super) fn receive(&mut self, told: &mut ReportedTime) -> io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let Some(datagram) = self.datagram()? else { break };
            let ours = rustix::process::geteuid().as_raw();
            let now = linux::clock::pair()?;
            if let Err(why) = may_send(&datagram, ours) {
                told.reject(why);
            } else if datagram.bytes.starts_with(&MAGIC) {
                self.hear(&datagram, now, told);
                self.ask(told)?;
            } else {
                match accept(&datagram, (self.read_at, now)) {
                    Ok(Accepted::Time(offset)) => told.offset(offset),
                    Ok(Accepted::Resumed) => told.resumed = true,
                    Err(why) => told.reject(why),
                }
            }
        }
        self.ask(told)?;
        self.read_at = linux::clock::pair()?;
        Ok(())
    }

    fn hear(&mut self, datagram: &HostDatagram, now: ClockPair, told: &mut ReportedTime) {
        let bytes: Result<&[u8; FRAME_BYTES], _> = datagram.bytes.as_slice().try_into();
        let length = || {
            let found = datagram.bytes.len() as u64;
            crate::wire::hosttime::Malformed::new("a frame", "length", found)
        };
        let frame = bytes.map_err(|_| length()).and_then(HostTimeFrame::parse);
        match frame {
            Ok(HostTimeFrame::Notice(_)) if datagram.from.is_none() => {
                told.reject(Rejected::NoAddress)
            }
            Ok(frame) => {
                if matches!(frame, HostTimeFrame::Notice(_)) {
                    self.asks = datagram.from;
                }
                told.hear(&mut self.guest, &frame, now);
            }
            Err(why) => told.reject(why),
        }
    }

    /// Sends the request that is due to where the notice came from.
    fn ask(&mut self, told: &mut ReportedTime) -> io::Result<()> {
        let Some(address) = self.asks else { return Ok(()) };
        let Some(frame) = request(&mut self.guest, linux::clock::pair()?, told) else {
            return Ok(());
        };
        let fd = self.socket.as_raw_fd();
        if let Err(why) = sendto(fd, &frame.encode(), &address, MsgFlags::MSG_DONTWAIT) {
            (self.asks, self.guest) = (None, GuestExchange::default());
            told.reject(Rejected::NotAsked { why: why.to_string() });
        }
        Ok(())
    }

    fn datagram(&self) -> io::Result<Option<HostDatagram>> {
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
        // An unbound socket has an empty address, of its family alone or less.
        let from = received.address.filter(|it| it.len() as usize > size_of::<libc::sa_family_t>());
        let (mut uid, mut sent_ns) = (None, None);
        // More attached than there is room for: then it has no sender, and is refused.
        for attached in received.cmsgs().into_iter().flatten() {
            match attached {
                ControlMessageOwned::ScmCredentials(sender) => uid = Some(sender.uid()),
                ControlMessageOwned::ScmTimestampns(at) => sent_ns = nanoseconds(at),
                _ => {}
            }
        }
        let bytes = bytes[..length].to_vec();
        Ok(Some(HostDatagram { bytes, from, uid, sent_ns }))
    }
}

impl AsFd for LocalSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for LocalSocket {
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
    if !is_socket {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let dead = UnixDatagram::unbound()?
        .connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if dead { std::fs::remove_file(path) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

fn nanoseconds(at: nix::sys::time::TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(at.tv_sec()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(at.tv_nsec()).ok()?)
}

/// What was received.
struct HostDatagram {
    bytes: Vec<u8>,
    /// Where it came from, if it can be replied to.
    from: Option<UnixAddr>,
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

/// Whether its sender may send to a process of user `ours`.
fn may_send(datagram: &HostDatagram, ours: u32) -> Result<(), Rejected> {
    // Where it is missing, the worst is assumed.
    let uid = datagram.uid.unwrap_or(u32::MAX);
    if uid == 0 || uid == ours { Ok(()) } else { Err(Rejected::Sender { uid, ours }) }
}

/// The message of a datagram that was received between the last read and now.
fn accept(
    datagram: &HostDatagram,
    (read_at, now): (ClockPair, ClockPair),
) -> Result<Accepted, Rejected> {
    let sent_ns = datagram.sent_ns.unwrap_or_default();
    match HostMessage::parse(&datagram.bytes)? {
        HostMessage::Resumed => Ok(Accepted::Resumed),
        HostMessage::Time { since_1970_ns, error_ns } => {
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
                utc_ns: Interval::around(shown_ns, error_ns),
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
