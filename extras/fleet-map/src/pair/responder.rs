//! Answers peers.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::io::Result;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use sources::wire::ntp::Packet;

use crate::pair::limiter::Limiter;
use crate::pair::networks::Networks;
use crate::pair::packet;
use crate::pair::socket::{self, NodeClock};

/// What became of requests.
#[derive(Debug, Default)]
pub struct ResponderCounts {
    /// Answered.
    pub answered: AtomicU64,
    /// Not: of another network, too many, or no request.
    pub refused: AtomicU64,
}

/// A responder.
#[derive(Debug)]
pub struct Responder {
    socket: UdpSocket,
    networks: Networks,
    clock: NodeClock,
    answers: Arc<ResponderCounts>,
}

impl Responder {
    /// At this address, for these networks.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr, networks: Networks, clock: NodeClock) -> Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket::stamp(&socket);
        Ok(Self { socket, networks, clock, answers: Arc::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Its counts, while it runs.
    pub fn answers(&self) -> Arc<ResponderCounts> {
        Arc::clone(&self.answers)
    }

    /// Answers until the process ends.
    pub fn run(self) -> Infallible {
        let (mut limiter, mut departures) = (Limiter::default(), Departures::default());
        // One more, to see what is longer: with extensions or a MAC, which are not answered.
        let mut buffer = [0; packet::LENGTH + 1];
        loop {
            let is_answered = match self.next(&mut buffer, &mut limiter, &mut departures) {
                Ok(is_answered) => is_answered,
                Err(_) => {
                    // Out of memory, or an ICMP error of an earlier reply.
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            let count = if is_answered { &self.answers.answered } else { &self.answers.refused };
            count.fetch_add(1, Relaxed);
        }
    }

    /// Whether the next packet was answered.
    fn next(
        &self,
        buffer: &mut [u8],
        limiter: &mut Limiter,
        departures: &mut Departures,
    ) -> Result<bool> {
        let came = socket::receive(&self.socket, buffer)?;
        let now = self.clock.now()?;
        let Some(from) = came.from.filter(|from| self.networks.contain(from.ip())) else {
            return Ok(false);
        };
        let arrived_ns = self.clock.shows(came.arrived_ns.unwrap_or(now.realtime_ns));
        let request = buffer.get(..came.length).unwrap_or_default();
        let Some(request) = packet::parse_request(request) else { return Ok(false) };
        if !limiter.allows(from.ip().to_canonical(), now.monotonic_ns) {
            return Ok(false);
        }
        while let Some((earlier, sent_ns)) = socket::next_departure(&self.socket) {
            departures.put(earlier.receive.0, self.clock.shows(sent_ns));
        }
        let earlier = packet::interleaved_arrival(&request);
        let reply = match earlier.and_then(|arrival| departures.take(arrival)) {
            Some(earlier_ns) => Packet {
                origin: request.receive,
                ..packet::plain_reply(&request, arrived_ns, earlier_ns)
            },
            None => {
                let sent_ns = self.clock.shows(self.clock.now()?.realtime_ns);
                packet::plain_reply(&request, arrived_ns, sent_ns)
            }
        };
        self.socket.send_to(&reply.encode(), from)?;
        Ok(true)
    }
}

// When replies left, for those who ask for it in their next request.

/// Replies share so many places; 64 KB.
const PLACES: usize = 4096;

/// When each reply was sent, by the arrival of its request. A place has the newest: who finds
/// another's there is replied to as one who did not ask.
#[derive(Debug)]
pub(crate) struct Departures {
    places: Box<[(u64, i64)]>,
    hash: RandomState,
}

impl Default for Departures {
    fn default() -> Self {
        Self { places: vec![(0, 0); PLACES].into(), hash: RandomState::new() }
    }
}

impl Departures {
    /// The reply to the request that arrived then was sent at `sent_ns`.
    pub(crate) fn put(&mut self, arrival: u64, sent_ns: i64) {
        let place = self.place(arrival);
        self.places[place] = (arrival, sent_ns);
    }

    /// When that was, and forgets it: a request that is repeated learns nothing.
    pub(crate) fn take(&mut self, arrival: u64) -> Option<i64> {
        let place = self.place(arrival);
        let (is_of, sent_ns) = self.places[place];
        (arrival != 0 && is_of == arrival).then(|| {
            self.places[place] = (0, 0);
            sent_ns
        })
    }

    fn place(&self, arrival: u64) -> usize {
        self.hash.hash_one(arrival) as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_few_are_lost() {
        let mut departures = Departures::default();
        assert_eq!(departures.take(0), None);
        (1..=400).for_each(|arrival| departures.put(arrival, -(arrival as i64)));
        let told: Vec<u64> =
            (1..=400).filter(|it| departures.take(*it) == Some(-(*it as i64))).collect();
        // Of 400 in 4,096 places some 20 lose theirs.
        assert!((330..=400).contains(&told.len()), "{}", told.len());
        assert!((1..=400).all(|arrival| departures.take(arrival).is_none()));
    }
}
