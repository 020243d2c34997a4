//! What packets pass through: our own socket, which notes all clocks as late
//! before sending and as early after receiving as can be.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sntpc::NtpUdpSocket;

/// Where an answer tells when the request arrived (RFC 5905, figure 8).
const RECEIVED_AT: std::ops::Range<usize> = 32..40;

/// The way to a server and back, for one request.
pub trait Wire {
    /// Sends a packet to the server.
    ///
    /// # Errors
    /// Those of the network.
    fn send(&self, packet: &[u8]) -> std::io::Result<usize>;

    /// Takes the next packet of the server, as far as it fits.
    ///
    /// # Errors
    /// Those of the network; `TimedOut` when none comes any more.
    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
}

/// A socket for one request, which is given up at a time.
#[derive(Debug)]
pub(super) struct Udp {
    socket: UdpSocket,
    until: Instant,
}

impl Udp {
    /// To this server alone.
    pub(super) fn to(server: SocketAddr, patience: Duration) -> std::io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // Connected, so that the kernel passes on this server's packets alone,
        // and its ICMP errors.
        socket.connect(server)?;
        Ok(Self { socket, until: Instant::now() + patience })
    }
}

impl Wire for Udp {
    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        self.socket.send(packet)
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// What passed the way.
pub(super) struct Seen<S> {
    /// The clocks before the request left.
    pub(super) sent: Option<S>,
    /// The clocks after the last answer arrived.
    pub(super) arrived: Option<S>,
    /// When the request arrived there, by the answer: 32.32 s since 1900.
    pub(super) received: u64,
    /// What ended it.
    pub(super) error: Option<std::io::Error>,
}

/// A way that notes the clocks, as sntpc takes it.
pub(super) struct Stamped<'w, W: Wire, S, F: Fn() -> S> {
    wire: &'w W,
    server: SocketAddr,
    stamp: F,
    seen: RefCell<Seen<S>>,
}

impl<'w, W: Wire, S, F: Fn() -> S> Stamped<'w, W, S, F> {
    /// Nothing has passed yet.
    pub(super) fn new(wire: &'w W, server: SocketAddr, stamp: F) -> Self {
        let seen = RefCell::new(Seen { sent: None, arrived: None, received: 0, error: None });
        Self { wire, server, stamp, seen }
    }

    /// What has passed.
    pub(super) fn seen(self) -> Seen<S> {
        self.seen.into_inner()
    }

    fn failed(&self, error: std::io::Error) -> sntpc::Error {
        self.seen.borrow_mut().error = Some(error);
        sntpc::Error::Network
    }
}

impl<W: Wire, S, F: Fn() -> S> NtpUdpSocket for Stamped<'_, W, S, F> {
    async fn send_to(&self, packet: &[u8], _: SocketAddr) -> sntpc::Result<usize> {
        let now = (self.stamp)();
        let sent = self.wire.send(packet).map_err(|error| self.failed(error))?;
        self.seen.borrow_mut().sent = Some(now);
        Ok(sent)
    }

    async fn recv_from(&self, buffer: &mut [u8]) -> sntpc::Result<(usize, SocketAddr)> {
        let length = self.wire.receive(buffer).map_err(|error| self.failed(error))?;
        let now = (self.stamp)();
        let mut seen = self.seen.borrow_mut();
        seen.arrived = Some(now);
        if let Some(bytes) = buffer.get(RECEIVED_AT).and_then(|bytes| bytes.try_into().ok()) {
            seen.received = u64::from_be_bytes(bytes);
        }
        Ok((length, self.server))
    }
}
