//! What somebody on this machine says that its host says: a Unix datagram
//! socket for a guest agent or a VMM's hook, where the host has no other way
//! in.
//!
//! # Protocol
//! A datagram is one message, at most 128 bytes of ASCII, with or without an
//! end of line:
//!
//! ```text
//! time 1795000000.123456789          the time is this now
//! time 1795000000.123 +- 0.002       the same, give or take 2 ms
//! resumed                            the machine was stopped, and goes on
//! ```
//!
//! `time` is seconds since 1970, with up to nine digits after the point; it
//! means the moment at which the datagram was sent, which the kernel notes.
//! Without a bound it is taken to be right to a second. `resumed` says that
//! there is reason to look at the clock; it may come before or after a time.
//! There is no answer.
//!
//! Only root and the user that keeps the clock are listened to, as the kernel
//! vouches for them (SCM_CREDENTIALS); the socket's file is for its owner
//! alone. What waited unread for more than a second is not used: with the
//! clock set meanwhile, nobody could say when it was sent.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, setsockopt, sockopt};

use super::NoOffset;
use super::offset::{Moment, Offset, Told};

mod message;

pub use message::{Malformed, Message};

/// How long a time holds, and how long one may wait to be read, ns.
const FRESH_NS: u64 = 1_000_000_000;

/// Datagrams read in one go, so that a flood does not hold the keeper up.
const MOST_AT_ONCE: u32 = 64;

/// A socket that a host's word comes in on.
#[derive(Debug)]
pub struct HostSocket {
    path: PathBuf,
    socket: UnixDatagram,
    /// When it was read last: what comes out of it was sent since.
    heard: Moment,
    /// Said, and not handed on.
    news: Option<Offset>,
    /// CLOCK_MONOTONIC of the last time that was said, ns.
    last_ns: Option<u64>,
    resumed: bool,
    refused: Option<Refused>,
}

/// Why a datagram was not listened to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It came from a user who has no say in it.
    #[error("from user {uid}, who is neither root nor user {ours}")]
    Stranger {
        /// Who sent it.
        uid: u32,
        /// Who is listened to beside root.
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
        0.. => format!("sent {age_s:.1} s ago, and of use for 1 s: send it again"),
        _ => format!(
            "sent {:.1} s from now by this clock, which was set meanwhile: send it again",
            -age_s
        ),
    }
}

impl HostSocket {
    /// Listens at `path`. What a socket's former owner left behind there is
    /// taken away; a socket that somebody listens at is not.
    ///
    /// # Errors
    /// Something else is there, or the folder is not ours to write.
    pub fn bind(path: &Path) -> io::Result<Self> {
        take_away_leftover(path)?;
        let socket = UnixDatagram::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let heard = Moment::now().map_err(io::Error::other)?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            heard,
            news: None,
            last_ns: None,
            resumed: false,
            refused: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody said `resumed` since this was asked last.
    pub fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }

    /// Why the last datagram that was not listened to was not, once.
    pub fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// Reads what waits; does not wait itself. Whether there is something new.
    ///
    /// To be called now and then though nothing waits, and after the clock was
    /// set: where it was set since the last call, a message cannot always be
    /// told to be from before or after.
    ///
    /// # Errors
    /// The socket cannot be read.
    pub fn hear(&mut self) -> io::Result<bool> {
        let mut heard = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(datagram) = self.receive()? else { break };
            let ours = rustix::process::geteuid().as_raw();
            let now = Moment::now().map_err(io::Error::other)?;
            match judge(&datagram, ours, (self.heard, now)) {
                Ok(Word::Time(offset)) => {
                    (self.news, self.last_ns) = (Some(offset), Some(offset.at_monotonic_ns));
                }
                Ok(Word::Resumed) => self.resumed = true,
                Err(why) => {
                    self.refused = Some(why);
                    continue;
                }
            }
            heard = true;
        }
        self.heard = Moment::now().map_err(io::Error::other)?;
        Ok(heard)
    }

    /// How far the host's time is from CLOCK_REALTIME, by what was said last;
    /// once, for by then the clock may have been corrected by it.
    ///
    /// # Errors
    /// Nothing was said in the last second, or it was handed out already.
    pub fn compare(&mut self) -> Result<Offset, NoOffset> {
        let path = self.path.display().to_string();
        self.hear().map_err(|error| crate::privilege::why(&path, &error))?;
        let now_ns = self.heard.monotonic_ns;
        let age_ns = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let fresh = self.news.take().filter(|news| age_ns(news.at_monotonic_ns) <= FRESH_NS);
        let last_age_ms = self.last_ns.map(|last_ns| age_ns(last_ns) / 1_000_000);
        fresh.ok_or(NoOffset::Silent { path, last_age_ms })
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
        // Left behind, it is taken away by the next one.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn take_away_leftover(path: &Path) -> io::Result<()> {
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

/// What came in.
struct Datagram {
    bytes: Vec<u8>,
    /// Who sent it; the kernel says so of each.
    uid: Option<u32>,
    /// CLOCK_REALTIME when it was sent, ns; the kernel says so of each.
    sent_ns: Option<u64>,
}

/// What was said.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Time(Offset),
    Resumed,
}

/// What a datagram says that user `ours` reads, between the last reading and
/// now.
fn judge(datagram: &Datagram, ours: u32, (heard, now): (Moment, Moment)) -> Result<Word, Refused> {
    // Unsaid, both are as bad as can be.
    let uid = datagram.uid.unwrap_or(u32::MAX);
    if uid != 0 && uid != ours {
        return Err(Refused::Stranger { uid, ours });
    }
    let sent_ns = datagram.sent_ns.unwrap_or_default();
    match Message::parse(&datagram.bytes)? {
        Message::Resumed => Ok(Word::Resumed),
        Message::Time { since_1970_ns, error_ns } => {
            let age_ns = i128::from(now.realtime_ns) - i128::from(sent_ns);
            let Some(age) = u64::try_from(age_ns).ok().filter(|age| *age <= FRESH_NS) else {
                return Err(Refused::Stale { age_ns });
            };
            let at_monotonic_ns = now.monotonic_ns.saturating_sub(age);
            let around = if may_be_from_before(at_monotonic_ns, heard, now) {
                (heard, now)
            } else {
                (now, now)
            };
            Told::around(since_1970_ns, error_ns)
                .against(|| "the host's word".to_owned(), (sent_ns, sent_ns), around)
                .map(|offset| Word::Time(Offset { at_monotonic_ns, ..offset }))
                .map_err(|error| Refused::OutOfRange(error.to_string()))
        }
    }
}

/// Whether what was sent at `at_monotonic_ns`, if the clock stood then as it
/// stands now, can as well have been sent before the clock was set.
fn may_be_from_before(at_monotonic_ns: u64, heard: Moment, now: Moment) -> bool {
    let stood = |at: Moment| i128::from(at.realtime_ns) - i128::from(at.monotonic_ns);
    let before_ns = i128::from(at_monotonic_ns) + stood(now) - stood(heard);
    (i128::from(heard.monotonic_ns)..=i128::from(now.monotonic_ns)).contains(&before_ns)
}

#[cfg(test)]
mod tests;
