//! The socket that packets pass through, which stamps them: as late before
//! sending and as early after receiving as can be; and numbers them, so that no
//! reply can be guessed.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use sntpc::NtpUdpSocket;

/// Where a reply has the time at which the request arrived (RFC 5905, figure 8).
const RECEIVED_AT: Range<usize> = 32..40;

/// Where a request has its time of transmission, and a reply repeats it.
const TRANSMITTED_AT: Range<usize> = 40..48;
const ORIGIN_AT: Range<usize> = 24..32;

/// What a request has in place of its time, and a reply repeats: no server reads it,
/// and one who does not see the request has a chance of 1 in 2^64.
pub(super) type Nonce = [u8; 8];

/// A nonce from the kernel's random numbers.
///
/// # Errors
/// It has none yet, early in a boot: the next poll may.
pub(super) fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = Nonce::default();
    match getrandom(&mut nonce, GetRandomFlags::NONBLOCK) {
        Ok(length) if length == nonce.len() => Ok(nonce),
        _ => Err(std::io::Error::other("no random number for the request yet")),
    }
}

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

/// A transport that stamps its packets, as sntpc takes it. What sntpc makes a request's
/// number of is a time in microseconds, of which anyone knows the second: the server gets
/// the nonce instead, and sntpc its own back with a reply that repeats the nonce.
pub(super) struct Stamped<W: Wire, S, F: Fn() -> S> {
    wire: W,
    server: SocketAddr,
    stamp: F,
    nonce: Nonce,
    /// What the nonce took the place of.
    own: Cell<Nonce>,
    stamps: RefCell<Stamps<S>>,
}

impl<W: Wire, S, F: Fn() -> S> Stamped<W, S, F> {
    /// No packet has passed yet.
    pub(super) fn new(wire: W, server: SocketAddr, nonce: Nonce, stamp: F) -> Self {
        let (own, stamps) = (Cell::default(), RefCell::new(Stamps::nothing()));
        Self { wire, server, stamp, nonce, own, stamps }
    }

    /// The request as it is sent.
    fn numbered(&self, packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        if let Some(own) = packet.get_mut(TRANSMITTED_AT) {
            self.own.set(std::array::from_fn(|at| own[at]));
            own.copy_from_slice(&self.nonce);
        }
        packet
    }

    /// Has sntpc find its own number in a reply to ours, and another one in any other:
    /// in one to the number that it would have sent, too.
    fn translate(&self, reply: &mut [u8]) {
        let own = self.own.get();
        if let Some(origin) = reply.get_mut(ORIGIN_AT) {
            let is_ours = *origin == self.nonce;
            origin.copy_from_slice(&if is_ours { own } else { own.map(|byte| !byte) });
        }
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
        let packet = self.numbered(packet);
        let now = (self.stamp)();
        let sent = self.wire.send(&packet).map_err(|error| self.failed(error))?;
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
        self.translate(buffer);
        Ok((length, self.server))
    }
}
