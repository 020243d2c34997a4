//! What the host tells of the time, by whichever of its channels: exchanges
//! (`crate::wire::hosttime`) on each, and one-way messages on the local socket.
//!
//! | channel | who speaks first | who may |
//! | --- | --- | --- |
//! | a Unix datagram socket | an agent or hook on this machine | root, and this process's user, by SCM_CREDENTIALS |
//! | AF_VSOCK | the host, which connects | CID 2 |
//! | a virtio-serial port | the host, which writes | the host: nobody else has the other end |
//!
//! A channel that another process has is tried again every 10 s: meanwhile the clock is
//! kept by whatever else shows the time.
//!
//! docs/protocols/host-socket.md is for those who write the other side.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pvclock::units::{CrossTimestamp, Interval, OffsetBound, TimeReading};
use rustix::event::epoll;
use rustix::fs::OFlags;

use crate::SourceError;
use crate::host::local::LocalSocket;
use crate::host::stream::{HostStream, Left};
use crate::host::told::ReportedTime;
use crate::host::vsock::Vsock;
use crate::source::now;

mod local;
mod message;
mod stream;
mod told;
mod vsock;

pub use crate::wire::hosttime::{EARLIEST_NS, VSOCK_PORT};
pub use message::{HostMessage, MalformedMessage};
pub use told::Rejected;

/// How long a time is valid, ns.
const FRESH_NS: u64 = 1_000_000_000;

/// How long a notice shows that the host gives notice of each pause: a nightly backup's
/// pause is told before the last is that old, and one that was told by hand is no promise
/// for longer.
const NOTICE: Duration = Duration::from_secs(25 * 3600);

/// Listens to the host.
#[derive(Debug)]
pub struct HostSource {
    /// What it is called: its channels.
    name: String,
    told: ReportedTime,
    local: Option<LocalSocket>,
    vsock: Option<Vsock>,
    port: Option<Port>,
    /// What another process has.
    awaited: Vec<Awaited>,
    noticed: Option<Instant>,
    /// Readable when one of them is.
    any: OwnedFd,
}

impl HostSource {
    /// Listens on these channels, one of a kind. What another process has, which any user
    /// may have taken first, is [awaited](HostSource::awaited).
    ///
    /// # Errors
    /// The channel that cannot be opened, and why.
    pub fn open(channels: &[HostChannel]) -> Result<Self, (HostChannel, io::Error)> {
        let any = epoll::create(epoll::CreateFlags::CLOEXEC);
        let any = any.map_err(|why| (HostChannel::None, why.into()))?;
        let mut host = Self {
            name: String::new(),
            told: ReportedTime::default(),
            local: None,
            vsock: None,
            port: None,
            awaited: Vec::new(),
            noticed: None,
            any,
        };
        for channel in channels {
            match host.add(channel) {
                Ok(()) => {}
                Err(why) if is_anothers(channel, &why) => {
                    host.awaited.push(Awaited::new(channel, &why));
                }
                Err(why) => return Err((channel.clone(), why)),
            }
            if *channel != HostChannel::None {
                let comma = if host.name.is_empty() { "" } else { "," };
                host.name.push_str(&format!("{comma}{channel}"));
            }
        }
        Ok(host)
    }

    fn add(&mut self, channel: &HostChannel) -> io::Result<()> {
        let level = epoll::EventFlags::IN;
        match channel {
            HostChannel::None => {}
            HostChannel::Socket(path) => {
                let local = self.local.insert(LocalSocket::bind(path)?);
                watch(&self.any, local.as_fd(), level)?;
            }
            HostChannel::Vsock(port) => {
                let vsock = self.vsock.insert(Vsock::listen(*port)?);
                watch(&self.any, vsock.as_fd(), level)?;
            }
            HostChannel::Port(path) => {
                let port = self.port.insert(Port::open(path)?);
                // A host that has gone is reported as long as it has.
                watch(&self.any, port.as_fd(), level | epoll::EventFlags::ET)?;
            }
        }
        Ok(())
    }

    /// The channels that another process has, and what is told of it: each is tried again
    /// every 10 s, as the others are read.
    pub fn awaited(&self) -> impl Iterator<Item = (&HostChannel, &str)> {
        self.awaited.iter().map(|one| (&one.channel, one.why.as_str()))
    }

    /// Tries again the channels that another process had, where that is due.
    pub fn retry(&mut self, now: Instant) {
        for mut one in std::mem::take(&mut self.awaited) {
            if !one.take_due(now) {
                self.awaited.push(one);
            } else if let Err(why) = self.add(&one.channel) {
                one.failed(&why);
                self.awaited.push(one);
            }
        }
    }

    /// Its channels: `/run/parachron/host.sock,vsock:123`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the host reported, since the last call, that the machine was
    /// stopped.
    pub fn take_resumed(&mut self) -> bool {
        if self.told.resumed {
            self.noticed = Some(Instant::now());
        }
        std::mem::take(&mut self.told.resumed)
    }

    /// Whether the host has reported within 25 hours that the machine was stopped.
    pub fn gives_notice(&self, now: Instant) -> bool {
        self.noticed.is_some_and(|at| now.saturating_duration_since(at) < NOTICE)
    }

    /// Why the last that was rejected was; at most once a second.
    pub fn take_rejected(&mut self) -> Option<Rejected> {
        self.told.take_rejected(linux::clock::pair().ok()?.monotonic_ns)
    }

    /// Reads what waits, and asks the host; does not wait itself.
    ///
    /// To be called regularly though nothing waits, and after the clock was
    /// set: where it was set since the last call, it is not always known whether
    /// a message is from before or after.
    ///
    /// # Errors
    /// A channel or a clock cannot be read.
    pub fn receive_all(&mut self) -> io::Result<()> {
        self.retry(Instant::now());
        let mut events = Vec::with_capacity(8);
        // An edge is reported until it was taken.
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.any, buffer, Some(&none)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        if let Some(local) = &mut self.local {
            local.receive(&mut self.told)?;
        }
        if let Some(vsock) = &mut self.vsock {
            let any = &self.any;
            vsock.receive(&mut self.told, |fd| watch(any, fd, epoll::EventFlags::IN))?;
        }
        if let Some(port) = &mut self.port {
            port.receive(&mut self.told)?;
        }
        Ok(())
    }

    /// The host's time minus CLOCK_REALTIME, by the last message or exchange;
    /// once, for then the clock may be corrected by it.
    ///
    /// # Errors
    /// None of the last second, or it was used already.
    pub fn offset(&mut self) -> Result<OffsetBound, SourceError> {
        self.receive_all().map_err(|error| crate::unknown(&self.name, &error))?;
        let now_ns = now()?.monotonic_ns;
        let age_ns = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let fresh = self.told.offset.take().filter(|it| age_ns(it.at_monotonic_ns) <= FRESH_NS);
        let last_age_ms = self.told.last_ns.map(|last_ns| age_ns(last_ns) / 1_000_000);
        // A host that was heard by another channel is silent.
        let awaited = self.awaited.first().filter(|_| last_age_ms.is_none());
        fresh.ok_or_else(|| match awaited {
            Some(one) => one.error(),
            None => SourceError::NoMessage { path: self.name.clone(), last_age_ms },
        })
    }

    /// The host's time now, by [`HostSource::offset`], between two stamps.
    ///
    /// # Errors
    /// As [`HostSource::offset`], or its time is before 1970.
    pub fn read<S>(&mut self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        let OffsetBound { offset_ns, bound_ns, .. } = self.offset()?;
        let before = stamp();
        let realtime_ns = now()?.realtime_ns;
        let after = stamp();
        let before_1970 = || SourceError::Before1970 { device: self.name.clone() };
        let shown_ns = realtime_ns.checked_add_signed(offset_ns).ok_or_else(before_1970)?;
        let utc_ns = Interval::around(shown_ns, bound_ns);
        let realtime_ns = (realtime_ns, realtime_ns);
        let cross_timestamp = Some(CrossTimestamp { shown_ns, realtime_ns, raw_ns: None });
        Ok(TimeReading { before, utc_ns, shown_ns: (shown_ns, shown_ns), cross_timestamp, after })
    }
}

fn watch(any: &OwnedFd, fd: BorrowedFd<'_>, flags: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(any, fd, epoll::EventData::new_u64(0), flags)?)
}

impl AsFd for HostSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.as_fd()
    }
}

/// Where the host is listened to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostChannel {
    /// On no channel.
    #[default]
    None,
    /// A Unix datagram socket to be made at this path.
    Socket(PathBuf),
    /// This port of AF_VSOCK.
    Vsock(u32),
    /// A virtio-serial port, as `/dev/virtio-ports/NAME`.
    Port(PathBuf),
}

impl fmt::Display for HostChannel {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Socket(path) | Self::Port(path) => path.display().fmt(to),
            Self::Vsock(port) => write!(to, "vsock:{port}"),
        }
    }
}

// A virtio-serial port, whose other end only the host has.
//
// While the host has not opened its end, reads end at once and polls report a
// hang-up (`port_fops_read`, `port_fops_poll`, drivers/char/virtio_console.c).

/// An open port.
#[derive(Debug)]
struct Port(HostStream);

impl Port {
    /// Opens the port's device, which one process may have open at a time.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self(HostStream::new(file.into())))
    }

    /// Reads what waits. After bytes that are no frame, those that wait with
    /// them are dropped: a host that begins anew begins with a frame.
    fn receive(&mut self, told: &mut ReportedTime) -> io::Result<()> {
        match self.0.receive(told)? {
            Left::Open => {}
            Left::Ended => self.0.reset(),
            Left::Broken => {
                self.0.reset();
                let mut dropped = [0; 4096];
                let _ = rustix::io::read(&self.0, &mut dropped);
            }
        }
        Ok(())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// A channel that another process has, until it is free.
//
// Who listens first at a port of AF_VSOCK beyond 1023, or has a socket in a folder that
// all may write, may be any user: that keeps the host from being heard, and is no reason
// for a daemon to end.

/// It is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// One that is waited for.
#[derive(Debug)]
struct Awaited {
    channel: HostChannel,
    /// What is in the way, and what is done about it.
    why: String,
    /// When it was tried again last.
    tried: Option<Instant>,
}

impl Awaited {
    fn new(channel: &HostChannel, why: &io::Error) -> Self {
        Self { channel: channel.clone(), why: reason(why), tried: None }
    }

    /// Whether it is to be tried now: at once, as a daemon that takes new settings has it
    /// itself until they are in force, and then once each [`AGAIN`].
    fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.tried.is_none_or(|at| now.saturating_duration_since(at) >= AGAIN);
        if is_due {
            self.tried = Some(now);
        }
        is_due
    }

    /// It cannot be had still.
    fn failed(&mut self, why: &io::Error) {
        self.why = reason(why);
    }

    fn error(&self) -> SourceError {
        SourceError::ChannelTaken { channel: self.channel.to_string(), why: self.why.clone() }
    }
}

/// Whether a channel cannot be opened as another process has it, or has put something in
/// its place.
fn is_anothers(channel: &HostChannel, why: &io::Error) -> bool {
    match (why.kind(), channel) {
        (ErrorKind::AddrInUse | ErrorKind::ResourceBusy | ErrorKind::AlreadyExists, _) => true,
        // A dead socket of another user's, in a folder where each removes his own alone.
        (ErrorKind::PermissionDenied, HostChannel::Socket(path)) => path.symlink_metadata().is_ok(),
        _ => false,
    }
}

fn reason(why: &io::Error) -> String {
    let cause = match why.kind() {
        ErrorKind::AddrInUse | ErrorKind::ResourceBusy => "it is in use",
        ErrorKind::AlreadyExists => "the existing file is not a socket",
        ErrorKind::PermissionDenied => "the existing file cannot be removed",
        _ => "the channel cannot be opened",
    };
    format!("{why}: {cause}; retrying every {} s", AGAIN.as_secs())
}

#[cfg(test)]
mod tests;
