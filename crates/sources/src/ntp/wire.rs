//! The socket that packets pass through, which stamps them: as late before
//! sending and as early after receiving as can be.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sntpc::NtpUdpSocket;

/// Where a reply has the time at which the request arrived (RFC 5905, figure 8).
const RECEIVED_AT: std::ops::Range<usize> = 32..40;

/// A transport to a server and back, for one request.
pub trait Wire {
    /// Sends a packet to the server.
    ///
    /// # Errors
    /// Those of the network.
    fn send(&self, packet: &[u8]) -> std::io::Result<usize>;

    /// Receives the next packet of the server, as far as it fits.
    ///
    /// # Errors
    /// Those of the network; `WouldBlock` or `TimedOut` where there is none.
    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
}

impl<W: Wire> Wire for &W {
    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        (**self).send(packet)
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (**self).receive(buffer)
    }
}

/// A socket for one request, with the end of its time.
#[derive(Debug)]
pub(super) struct Udp {
    socket: UdpSocket,
    until: Instant,
}

impl Udp {
    /// To this server alone.
    pub(super) fn to(server: SocketAddr, timeout: Duration) -> std::io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // Connected, so that the kernel passes on this server's packets alone,
        // and its ICMP errors.
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, until: Instant::now() + timeout })
    }

    /// Whether the time for a reply is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

impl Wire for Udp {
    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        self.socket.send(packet)
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.socket.recv(buffer)
    }
}

/// Waits until a packet has come to one of them, or the time of one is over.
pub(super) fn wait(wires: &[&Udp]) {
    let until = wires.iter().map(|wire| wire.until).min();
    let left = until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
    let mut polled: Vec<PollFd<'_>> =
        wires.iter().map(|wire| PollFd::new(&wire.socket, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(left).ok();
    if poll(&mut polled, timeout.as_ref()).is_err() {
        // By a signal, or without memory: the caller polls again.
        thread::sleep(Duration::from_millis(1));
    }
}

/// The stamps of the packets.
pub(super) struct Stamps<S> {
    /// The clocks before the request left.
    pub(super) sent: Option<S>,
    /// The clocks after the last reply arrived.
    pub(super) arrived: Option<S>,
    /// When the request arrived there, by the reply: 32.32 s since 1900.
    pub(super) received: u64,
    /// The transport's last error.
    error: Option<std::io::Error>,
}

impl<S> Stamps<S> {
    fn nothing() -> Self {
        Self { sent: None, arrived: None, received: 0, error: None }
    }
}

/// A transport that stamps its packets, as sntpc takes it.
pub(super) struct Stamped<W: Wire, S, F: Fn() -> S> {
    wire: W,
    server: SocketAddr,
    stamp: F,
    stamps: RefCell<Stamps<S>>,
}

impl<W: Wire, S, F: Fn() -> S> Stamped<W, S, F> {
    /// No packet has passed yet.
    pub(super) fn new(wire: W, server: SocketAddr, stamp: F) -> Self {
        Self { wire, server, stamp, stamps: RefCell::new(Stamps::nothing()) }
    }

    /// The transport itself.
    pub(super) fn wire(&self) -> &W {
        &self.wire
    }

    /// The stamps, once.
    pub(super) fn take_stamps(&self) -> Stamps<S> {
        self.stamps.replace(Stamps::nothing())
    }

    /// The transport's error since the last call.
    pub(super) fn take_error(&self) -> Option<std::io::Error> {
        self.stamps.borrow_mut().error.take()
    }

    fn failed(&self, error: std::io::Error) -> sntpc::Error {
        self.stamps.borrow_mut().error = Some(error);
        sntpc::Error::Network
    }
}

impl<W: Wire, S, F: Fn() -> S> NtpUdpSocket for Stamped<W, S, F> {
    async fn send_to(&self, packet: &[u8], _: SocketAddr) -> sntpc::Result<usize> {
        let now = (self.stamp)();
        let sent = self.wire.send(packet).map_err(|error| self.failed(error))?;
        self.stamps.borrow_mut().sent = Some(now);
        Ok(sent)
    }

    async fn recv_from(&self, buffer: &mut [u8]) -> sntpc::Result<(usize, SocketAddr)> {
        let length = self.wire.receive(buffer).map_err(|error| self.failed(error))?;
        let now = (self.stamp)();
        let mut stamps = self.stamps.borrow_mut();
        stamps.arrived = Some(now);
        if let Some(bytes) = buffer.get(RECEIVED_AT).and_then(|bytes| bytes.try_into().ok()) {
            stamps.received = u64::from_be_bytes(bytes);
        }
        Ok((length, self.server))
    }
}
