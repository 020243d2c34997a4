//! The socket that packets pass through, and the number of a request, so that no reply can be
//! guessed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};

/// A request's number, from the kernel's random numbers: a program that does not see the request
/// guesses it once in 2^64 tries.
///
/// # Errors
/// It has none yet, early in a boot: the next poll may.
pub(super) fn number() -> std::io::Result<u64> {
    let mut number = [0; 8];
    match getrandom(&mut number, GetRandomFlags::NONBLOCK) {
        Ok(length) if length == number.len() => Ok(u64::from_ne_bytes(number)),
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
    pub(super) fn connect(server: SocketAddr, timeout: Duration) -> std::io::Result<Self> {
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
