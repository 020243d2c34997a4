//! Asks a peer.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::errormap::Probe;
use rustix::rand::{GetRandomFlags, getrandom};

use sources::wire::ntp::Packet;

use crate::pair::packet::{self, PeerReply, ReplyContent};
use crate::pair::socket::{self, NodeClock};

/// So many packets are read that are no reply.
const OTHERS: u32 = 16;

/// Why there are no times.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The network's.
    #[error("{0}")]
    Io(#[from] Error),
    /// It demands not to be asked, or less often.
    #[error("the peer sent the kiss code {}", String::from_utf8_lossy(.0))]
    Kiss([u8; 4]),
    /// Packets came and none is its reply.
    #[error("received {OTHERS} packets, none of which is the reply")]
    NoReply,
}

/// A probe's four times, ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTimes {
    /// We sent, the peer received, it sent, we received.
    pub ns: [i64; 4],
}

impl ProbeTimes {
    /// As a line: who asked whom.
    pub fn named(self, from: &str, to: &str) -> Probe {
        let [t1_ns, t2_ns, t3_ns, t4_ns] = self.ns;
        Probe { from: from.to_owned(), to: to.to_owned(), t1_ns, t2_ns, t3_ns, t4_ns }
    }
}

/// A peer that did not say so often when its reply was sent is not asked for it any more.
const MOST_MISSES: u8 = 3;

/// Asks one peer, any NTP server.
#[derive(Debug, Clone, Default)]
pub struct Prober {
    /// Second requests in a row that it did not reply to as asked.
    misses: u8,
}

impl Prober {
    /// Asks once for the time, and, if the peer does it, once more for when its reply was
    /// sent: its kernel knows better than what it could write into the reply itself.
    ///
    /// # Errors
    /// There is no reply in time, or it refuses.
    pub fn probe(
        &mut self,
        peer: SocketAddr,
        timeout: Duration,
        clock: NodeClock,
    ) -> Result<ProbeTimes, ProbeError> {
        let until = Instant::now() + timeout;
        let query = PeerQuery { socket: connect(peer)?, until, clock };
        // An arrival that never was: chronyd keeps departures only for who names one.
        let (number, none) = (random()?, random()? | 1);
        let (first, mut times) = query.exchange(&packet::request(none, 0, number), &[number])?;
        if self.misses >= MOST_MISSES {
            return Ok(times);
        }
        let (shown, number) = (random()?, random()?);
        let request = packet::request(first.arrival, shown, number);
        let second = match query.exchange(&request, &[shown, number]) {
            // It asks for fewer requests, and this was the one too many.
            Err(kiss @ ProbeError::Kiss(_)) => return Err(kiss),
            second => second.ok(),
        };
        let Some((_, second)) = second.filter(|(reply, _)| reply.replies_to == shown) else {
            self.misses += 1;
            return Ok(times);
        };
        self.misses = 0;
        // Before it could have been written, or long after, it was not.
        let written_ns = times.ns[2];
        if (written_ns..=written_ns.saturating_add(LONGEST_NS)).contains(&second.ns[2]) {
            times.ns[2] = second.ns[2];
        }
        Ok(times)
    }

    /// Whether the peer said when its last reply was sent.
    pub fn is_interleaved(&self) -> bool {
        self.misses == 0
    }
}

/// A reply does not wait longer in the kernel.
const LONGEST_NS: i64 = 1_000_000_000;

fn connect(peer: SocketAddr) -> Result<UdpSocket, Error> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port of its own for each probe, and the kernel passes on this peer's packets.
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    socket::stamp(&socket);
    Ok(socket)
}

fn random() -> Result<u64, Error> {
    let mut number = [0; 8];
    getrandom(&mut number, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(number))
}

/// A peer that is being asked.
struct PeerQuery {
    socket: UdpSocket,
    until: Instant,
    clock: NodeClock,
}

impl PeerQuery {
    /// Sends a request and waits for a reply to one of these numbers; with the four times.
    fn exchange(
        &self,
        request: &Packet,
        numbers: &[u64],
    ) -> Result<(PeerReply, ProbeTimes), ProbeError> {
        let clock = self.clock;
        let before = clock.now()?;
        self.socket.send(&request.encode())?;
        for _ in 0..OTHERS {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::from(ErrorKind::TimedOut).into());
            }
            self.socket.set_read_timeout(Some(left))?;
            let mut buffer = [0; packet::LENGTH];
            let came = socket::receive(&self.socket, &mut buffer)?;
            let after = clock.now()?;
            let bytes = buffer.get(..came.length).unwrap_or_default();
            let near_ns = clock.shows(before.realtime_ns);
            let reply = PeerReply::parse(bytes, near_ns);
            let Some(reply) = reply.filter(|reply| numbers.contains(&reply.replies_to)) else {
                continue;
            };
            let (received_ns, replied_ns) = match reply.content {
                ReplyContent::Kiss(code) => return Err(ProbeError::Kiss(code)),
                ReplyContent::Times { received_ns, sent_ns } => (received_ns, sent_ns),
            };
            // By what the two clocks differ, one of which is never set, this one was.
            let went = |end: u64, start: u64| end.wrapping_sub(start) as i64;
            let set_ns = went(after.realtime_ns, before.realtime_ns)
                .saturating_sub(went(after.monotonic_ns, before.monotonic_ns))
                .saturating_abs();
            let left_ns = self.departure_ns(request).unwrap_or(before.realtime_ns);
            let sent_ns = clock.shows(left_ns).saturating_sub(set_ns);
            let arrived_ns = clock.shows(came.arrived_ns.unwrap_or(after.realtime_ns));
            let arrived_ns = arrived_ns.saturating_add(set_ns);
            return Ok((reply, ProbeTimes { ns: [sent_ns, received_ns, replied_ns, arrived_ns] }));
        }
        Err(ProbeError::NoReply)
    }

    /// When the request left, by the kernel.
    fn departure_ns(&self, request: &Packet) -> Option<u64> {
        std::iter::from_fn(|| socket::next_departure(&self.socket))
            .find(|(left, _)| left.transmit == request.transmit)
            .map(|(_, at_ns)| at_ns)
    }
}
