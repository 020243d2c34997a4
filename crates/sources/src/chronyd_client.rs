//! A client of chronyd: commands and tracking by its own protocol, samples for
//! its reference clock socket.
//!
//! chronyd accepts commands that change something only on its Unix socket,
//! which root and its own user can open; over UDP it answers queries and
//! refuses those (`man 5 chrony.conf`, `bindcmdaddress`).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::wire::chronyd::{ChronydRequest, ReplyError, ReplyStatus, Tracking};

mod feed;
mod socket;
pub mod tracking;

pub use feed::{Feed, FeedError};
pub use socket::ChronydAddress;
use socket::Socket;

/// A request takes no longer than this: chronyd replies in milliseconds, and a
/// daemon that keeps a clock must not wait for one that hangs.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// A program that is asked for facts waits no longer than this for chronyd's.
const TRACKING_TIMEOUT: Duration = Duration::from_millis(500);

/// A datagram without a reply is sent again after this, then after twice that,
/// and so on.
const RESEND_AFTER: Duration = Duration::from_millis(100);

/// Sends requests to a chronyd. Each opens a socket of its own, so that a
/// chronyd may be restarted between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChronydClient {
    /// Tried in this order until a chronyd replies.
    addresses: Vec<ChronydAddress>,
    timeout: Duration,
}

/// A request that had no effect.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {cause}")]
pub struct ChronydError {
    /// The command.
    pub command: &'static str,
    /// Why.
    pub cause: ChronydErrorCause,
}

/// Why a request had no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChronydErrorCause {
    /// No chronyd replies, or this user may not open its socket: what happened
    /// at each address.
    #[error("chronyd is unreachable: {}", listed(.0))]
    Unreachable(Vec<(ChronydAddress, io::Error)>),
    /// chronyd at this address did not do it.
    #[error("chronyd at {0} refused: {1}")]
    Refused(ChronydAddress, ReplyError),
}

impl ChronydError {
    /// Whether chronyd has no servers to measure again: it has reference clocks alone.
    pub fn has_no_servers(&self) -> bool {
        matches!(
            self.cause,
            ChronydErrorCause::Refused(_, ReplyError::Refused(ReplyStatus::NoSuchSource))
        )
    }

    /// Whether chronyd tried, and could not: it may not set the clock.
    pub fn has_failed(&self) -> bool {
        matches!(
            self.cause,
            ChronydErrorCause::Refused(_, ReplyError::Refused(ReplyStatus::Failed))
        )
    }
}

fn listed(attempts: &[(ChronydAddress, io::Error)]) -> String {
    let attempt = |(address, error): &(ChronydAddress, io::Error)| format!("{address}: {error}");
    attempts.iter().map(attempt).collect::<Vec<_>>().join("; ")
}

impl Default for ChronydClient {
    /// This machine's chronyd where `chronyc` looks for it: the Unix socket,
    /// then the UDP port of either loopback address.
    fn default() -> Self {
        let udp = |ip| ChronydAddress::Udp(SocketAddr::new(ip, 323));
        let unix = ChronydAddress::Unix("/run/chrony/chronyd.sock".into());
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].map(udp);
        Self { addresses: [unix].into_iter().chain(loopback).collect(), timeout: TIMEOUT }
    }
}

impl ChronydClient {
    /// A client of the chronyd at this address.
    pub fn at_address(address: ChronydAddress) -> Self {
        Self { addresses: vec![address], timeout: TIMEOUT }
    }

    /// A client of the chronyd at this address, or of this machine's.
    pub fn new(address: Option<ChronydAddress>) -> Self {
        address.map_or_else(Self::default, Self::at_address)
    }

    /// Has chronyd correct at once, by a step, what it is still slewing: what
    /// it measured itself, no more.
    ///
    /// # Errors
    /// It is unreachable, refuses, or cannot set the clock.
    pub fn makestep(&self) -> Result<(), ChronydError> {
        self.command(ChronydRequest::MakeStep)
    }

    /// Has chronyd drop all its measurements: they mislead it after a
    /// disruption that it did not notice (chrony 4.0 and later).
    ///
    /// # Errors
    /// It is unreachable, refuses, or does not know the command.
    pub fn reset_sources(&self) -> Result<(), ChronydError> {
        self.command(ChronydRequest::ResetSources)
    }

    /// Has chronyd poll its servers until `good` measurements, `max` times at
    /// most, instead of at its next poll, which may be 17 minutes away.
    ///
    /// # Errors
    /// It is unreachable, refuses, or has no server.
    pub fn burst(&self, good: u8, max: u8) -> Result<(), ChronydError> {
        self.command(ChronydRequest::Burst { good, max })
    }

    /// What it knows of the clock's error.
    ///
    /// # Errors
    /// It is unreachable, or refuses.
    pub fn tracking(&self) -> Result<Tracking, ChronydError> {
        self.request(ChronydRequest::Tracking, crate::wire::chronyd::tracking)
    }

    fn command(&self, request: ChronydRequest) -> Result<(), ChronydError> {
        self.request(request, |reply, sequence| {
            crate::wire::chronyd::acknowledgement(reply, request, sequence)
        })
    }

    /// Over UDP each chronyd refuses what changes something: that would be told in the place
    /// of why its Unix socket cannot be reached.
    fn addresses_for(&self, request: ChronydRequest) -> impl Iterator<Item = &ChronydAddress> {
        let is_unix = |address: &&ChronydAddress| matches!(address, ChronydAddress::Unix(_));
        let only_unix =
            request != ChronydRequest::Tracking && self.addresses.iter().any(|it| is_unix(&it));
        self.addresses.iter().filter(move |address| !only_unix || is_unix(address))
    }

    fn request<T>(
        &self,
        request: ChronydRequest,
        parse: impl Fn(&[u8], u32) -> Result<T, ReplyError>,
    ) -> Result<T, ChronydError> {
        let timeout = match request {
            ChronydRequest::Tracking => self.timeout.min(TRACKING_TIMEOUT),
            _ => self.timeout,
        };
        let (command, deadline) = (request.name(), Instant::now() + timeout);
        let mut attempts = Vec::new();
        for address in self.addresses_for(request) {
            if !attempts.is_empty() && Instant::now() >= deadline {
                break;
            }
            match exchange(address, request, (timeout, deadline), &parse) {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => {
                    let cause = ChronydErrorCause::Refused(address.clone(), error);
                    return Err(ChronydError { command, cause });
                }
                Err(error) => attempts.push((address.clone(), error)),
            }
        }
        Err(ChronydError { command, cause: ChronydErrorCause::Unreachable(attempts) })
    }
}

/// One address's reply, or that there is none.
fn exchange<T>(
    address: &ChronydAddress,
    request: ChronydRequest,
    (timeout, deadline): (Duration, Instant),
    parse: impl Fn(&[u8], u32) -> Result<T, ReplyError>,
) -> io::Result<Result<T, ReplyError>> {
    let socket = Socket::connect(address)?;
    // Keyed from the system's entropy: nobody can guess it.
    let sequence = RandomState::new().hash_one(0) as u32;
    let mut reply = [0; crate::wire::chronyd::MAX_REPLY_BYTES + 1];
    let mut resend_after = RESEND_AFTER;
    loop {
        let until = deadline.min(Instant::now() + resend_after);
        socket.send(&request.encode(sequence), until)?;
        // A reply to an earlier attempt is as good: it has the same number.
        while let Some(length) = socket.receive(&mut reply, until)? {
            match parse(&reply[..length], sequence) {
                Err(error) if error.is_unrelated() => {}
                other => return Ok(other),
            }
        }
        if Instant::now() >= deadline {
            let why = format!("no reply in {} ms", timeout.as_millis());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        resend_after *= 2;
    }
}

#[cfg(test)]
mod tests;
