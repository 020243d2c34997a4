//! Asking chronyd, so that nobody waits: one round of maintenance sends a
//! request, a later one finds the answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process;

use crate::timeline::bound::Chronyd;
use crate::timeline::chronyd::{BYTES, NoAnswer, parse, request};

/// Between two requests, ns. The answer's bound grows until the next by
/// chronyd's own skew and 1 ppm, a few µs.
const PAUSE_NS: u64 = 1_000_000_000;
/// Requests in a row without an answer after which the last one is forgotten.
const PATIENCE: u32 = 3;
/// Datagrams looked at in one round: only this address may send us any, so
/// more than a late answer or two is somebody's flood.
const LOOKS: u32 = 4;

/// Where a chronyd takes requests unless its configuration says otherwise
/// (`cmdport`): port 323 of this machine.
pub const LOCAL_CHRONYD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 323);

/// A socket to chronyd, and what is under way on it. Nothing is allocated
/// after [`Asker::new`].
#[derive(Debug)]
pub(crate) struct Asker {
    address: SocketAddr,
    socket: UdpSocket,
    /// Whose socket it is: a forked child and its parent would take each
    /// other's answers.
    process: u32,
    sequence: u32,
    /// When the request went off that has no answer yet, ns.
    waiting_since_ns: Option<u64>,
    ask_at_ns: u64,
    unanswered: u32,
}

impl Asker {
    /// `sequence` begins the requests' numbers: one that nobody can guess.
    pub(crate) fn new(address: SocketAddr, sequence: u32) -> io::Result<Self> {
        Ok(Self {
            address,
            socket: connect(address)?,
            process: process::id(),
            sequence,
            waiting_since_ns: None,
            ask_at_ns: 0,
            unanswered: 0,
        })
    }

    /// Takes an answer if one has come, and asks anew if it is time to.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<Chronyd> {
        if self.process != process::id() {
            self.begin_anew_in_child();
        }
        let heard = self.take_answer();
        if now_ns < self.ask_at_ns {
            return heard;
        }
        let silent = heard.is_none() && self.unanswered >= PATIENCE;
        self.ask(now_ns);
        if silent { Some(Chronyd::Silent) } else { heard }
    }

    fn take_answer(&mut self) -> Option<Chronyd> {
        let asked_ns = self.waiting_since_ns?;
        let mut datagram = [0; BYTES + 1];
        for _ in 0..LOOKS {
            let answer = match self.socket.recv(&mut datagram) {
                Ok(length) => parse(&datagram[..length], self.sequence),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // Nobody is there: the kernel was told so (ICMP).
                Err(_) => return self.answered(Chronyd::Silent),
            };
            match answer {
                Ok(tracking) => return self.answered(Chronyd::Answered { tracking, asked_ns }),
                // It does not want to tell us.
                Err(NoAnswer::Refused(..)) => return self.answered(Chronyd::Silent),
                Err(_) => {}
            }
        }
        None
    }

    fn answered(&mut self, chronyd: Chronyd) -> Option<Chronyd> {
        self.waiting_since_ns = None;
        self.unanswered = 0;
        Some(chronyd)
    }

    fn ask(&mut self, now_ns: u64) {
        // An odd constant: all numbers come once before one comes again.
        self.sequence = self.sequence.wrapping_add(0x9e37_79b9);
        // One that could not be sent is one without an answer.
        let _ = self.socket.send(&request(self.sequence));
        self.waiting_since_ns = Some(now_ns);
        self.ask_at_ns = now_ns.saturating_add(PAUSE_NS);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// In a child the parent's socket is left to the parent. Where no new one
    /// can be had, the old one goes on: an answer is lost now and then.
    fn begin_anew_in_child(&mut self) {
        self.process = process::id();
        self.sequence ^= self.process;
        if let Ok(socket) = connect(self.address) {
            self.socket = socket;
        }
        self.waiting_since_ns = None;
    }
}

/// A socket on which only `address` is heard, and nobody waits.
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
