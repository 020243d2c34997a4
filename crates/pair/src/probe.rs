//! Asks a peer.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use errormap::Probe;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::packet::{self, Reply};
use crate::socket::{self, Clock};

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
    #[error("it sent the kiss code {}", String::from_utf8_lossy(.0))]
    Kiss([u8; 4]),
    /// Packets came and none is its reply.
    #[error("{OTHERS} packets came, and none is its reply")]
    NoReply,
}

/// A probe's four times, ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// We sent, the peer received, it sent, we received.
    pub ns: [i64; 4],
}

impl Times {
    /// As a line: who asked whom.
    pub fn named(self, from: &str, to: &str) -> Probe {
        let [t1_ns, t2_ns, t3_ns, t4_ns] = self.ns;
        Probe { from: from.to_owned(), to: to.to_owned(), t1_ns, t2_ns, t3_ns, t4_ns }
    }
}

/// Asks the peer once: any NTP server.
///
/// # Errors
/// There is no reply in time, or it refuses.
pub fn probe(peer: SocketAddr, timeout: Duration, clock: Clock) -> Result<Times, ProbeError> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port of its own for each request, and the kernel passes on this peer's packets.
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    socket::stamp(&socket);
    let mut number = [0; 8];
    getrandom(&mut number, GetRandomFlags::empty()).map_err(Error::from)?;
    let number = u64::from_ne_bytes(number);
    let until = Instant::now() + timeout;
    let before = clock.now()?;
    socket.send(&packet::request(number))?;
    for _ in 0..OTHERS {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::from(ErrorKind::TimedOut).into());
        }
        socket.set_read_timeout(Some(left))?;
        let mut buffer = [0; packet::LENGTH];
        let came = socket::receive(&socket, &mut buffer)?;
        let after = clock.now()?;
        let sent_ns = clock.shows(before.realtime_ns);
        match Reply::parse(buffer.get(..came.length).unwrap_or_default(), number, sent_ns) {
            None => {}
            Some(Reply::Kiss(code)) => return Err(ProbeError::Kiss(code)),
            Some(Reply::Times { received_ns, sent_ns: replied_ns }) => {
                // By what the two clocks differ, one of which is never set, this one was.
                let went = |end: u64, start: u64| end.wrapping_sub(start) as i64;
                let set_ns = went(after.realtime_ns, before.realtime_ns)
                    .saturating_sub(went(after.monotonic_ns, before.monotonic_ns))
                    .saturating_abs();
                let arrived_ns = clock.shows(came.arrived_ns.unwrap_or(after.realtime_ns));
                let ends = [sent_ns.saturating_sub(set_ns), arrived_ns.saturating_add(set_ns)];
                return Ok(Times { ns: [ends[0], received_ns, replied_ns, ends[1]] });
            }
        }
    }
    Err(ProbeError::NoReply)
}
