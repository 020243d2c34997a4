//! Polling chronyd without waiting: one round of maintenance sends a request,
//! a later one finds the reply.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process;

use wire::chronyd::{ChronydRequest, MAX_REPLY_BYTES, tracking};

use crate::timeline::bound::ChronydBound;

/// Between two requests, ns. The reply's bound grows until the next by
/// chronyd's own skew and 1 ppm, a few µs.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Requests in a row without a reply after which the last reply is dropped.
const LOST_LIMIT: u32 = 3;
/// Datagrams received in one round: only this address may send us any, so
/// more than a late reply or two is a flood.
const DATAGRAMS: u32 = 4;

/// Where a chronyd takes requests unless its configuration sets another port
/// (`cmdport`): port 323 of this machine.
pub const LOCAL_CHRONYD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 323);

/// A socket to chronyd, and the request pending on it. Nothing is allocated
/// after [`ChronydPoll::new`].
#[derive(Debug)]
pub(crate) struct ChronydPoll {
    address: SocketAddr,
    socket: UdpSocket,
    /// The process that opened the socket: a forked child and its parent would
    /// take each other's replies.
    process: u32,
    sequence: u32,
    /// When the request that has no reply yet was sent, ns.
    pending_since_ns: Option<u64>,
    next_request_ns: u64,
    lost: u32,
}

impl ChronydPoll {
    /// `sequence` is the first request's number: one that cannot be guessed.
    pub(crate) fn new(address: SocketAddr, sequence: u32) -> io::Result<Self> {
        Ok(Self {
            address,
            socket: connect(address)?,
            process: process::id(),
            sequence,
            pending_since_ns: None,
            next_request_ns: 0,
            lost: 0,
        })
    }

    /// Takes a reply if one has come, and sends the next request when due.
    pub(crate) fn advance(&mut self, now_ns: u64) -> Option<ChronydBound> {
        if self.process != process::id() {
            self.restart_in_child();
        }
        let received = self.receive();
        if now_ns < self.next_request_ns {
            return received;
        }
        let unreachable = received.is_none() && self.lost >= LOST_LIMIT;
        self.request(now_ns);
        if unreachable { Some(ChronydBound::Unreachable) } else { received }
    }

    fn receive(&mut self) -> Option<ChronydBound> {
        let requested_ns = self.pending_since_ns?;
        let mut datagram = [0; MAX_REPLY_BYTES + 1];
        for _ in 0..DATAGRAMS {
            let reply = match self.socket.recv(&mut datagram) {
                Ok(length) => tracking(&datagram[..length], self.sequence),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // The kernel has been notified that no process listens (ICMP).
                Err(_) => return self.finish(ChronydBound::Unreachable),
            };
            match reply {
                Ok(tracking) => {
                    let bound = tracking.error_bound();
                    return self.finish(ChronydBound::Replied { bound, requested_ns });
                }
                Err(error) if error.is_unrelated() => {}
                Err(_) => return self.finish(ChronydBound::Unreachable),
            }
        }
        None
    }

    fn finish(&mut self, chronyd: ChronydBound) -> Option<ChronydBound> {
        self.pending_since_ns = None;
        self.lost = 0;
        Some(chronyd)
    }

    fn request(&mut self, now_ns: u64) {
        // An odd constant: all numbers come once before one comes again.
        self.sequence = self.sequence.wrapping_add(0x9e37_79b9);
        // One that could not be sent counts as lost.
        let _ = self.socket.send(&ChronydRequest::Tracking.encode(self.sequence));
        self.pending_since_ns = Some(now_ns);
        self.next_request_ns = now_ns.saturating_add(INTERVAL_NS);
        self.lost = self.lost.saturating_add(1);
    }

    /// A child leaves the parent's socket to the parent. Where it gets no new
    /// one, it keeps using the old one: a reply is lost now and then.
    fn restart_in_child(&mut self) {
        self.process = process::id();
        self.sequence ^= self.process;
        if let Ok(socket) = connect(self.address) {
            self.socket = socket;
        }
        self.pending_since_ns = None;
    }
}

/// A socket that receives from `address` only and never blocks.
fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
