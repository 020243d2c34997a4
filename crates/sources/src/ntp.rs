//! An NTP server's time.

mod error;
mod request;
mod server;
mod transport;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pvclock::units::{OffsetBound, TimeReading};

use crate::SourceError;
use crate::source::{ReadStatus, now, offset};

pub use error::NtpError;
pub use server::{NtpPeer, ServerReply, ServerState};
pub use transport::Wire;

/// After so many failures in a row a server is looked up again: its name may
/// have another address by now.
const FAILURES: u32 = 4;

/// This part of the timeout is the server's own, however long the resolver
/// takes.
const SERVERS_PART: u32 = 10;

/// A server by its name, which may have another address later, or by its
/// address.
#[derive(Debug)]
pub struct NtpSource {
    name: String,
    timeout: Duration,
    mode: NtpMode,
    server: Option<NtpPeer>,
    lookup: Option<Lookup>,
    /// Since the last reply or the last lookup.
    failures: u32,
    kiss: Option<Kiss>,
    state: Option<ServerState>,
}

/// What is left to the caller.
#[derive(Debug, Clone, Copy)]
enum NtpMode {
    /// Nothing: names are looked up, a kiss-o'-death is obeyed.
    Followed(Resolve),
    /// One address for good, queried whenever the caller does.
    Fixed,
}

impl NtpSource {
    /// The server `name`, as [`NtpPeer::find`] takes it, looked up when it is
    /// first queried: the network may come later. The resolver and the server
    /// together are waited for no longer than `timeout`. A kiss-o'-death is
    /// obeyed: until it is over, it is the reply.
    pub fn named(name: &str, timeout: Duration) -> Self {
        Self::resolved_by(NtpPeer::find, name, timeout)
    }

    /// This server at its address, for good: of two servers of one name the
    /// clocks differ. The caller paces its queries and obeys a kiss-o'-death.
    pub fn fixed(server: NtpPeer) -> Self {
        let (name, timeout) = (server.name().to_owned(), server.timeout());
        Self { server: Some(server), ..Self::new(NtpMode::Fixed, name, timeout) }
    }

    fn resolved_by(resolve: Resolve, name: &str, timeout: Duration) -> Self {
        Self::new(NtpMode::Followed(resolve), name.to_owned(), timeout)
    }

    fn new(mode: NtpMode, name: String, timeout: Duration) -> Self {
        let (server, lookup, kiss, state) = (None, None, None, None);
        Self { name, timeout, mode, server, lookup, failures: 0, kiss, state }
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address; none before it was looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(NtpPeer::address)
    }

    /// What it stated about itself in its last reply.
    pub fn status(&self) -> ReadStatus {
        ReadStatus {
            stratum: self.state.map(|state| state.stratum),
            root_distance_ns: self.state.map(|state| state.root_distance_ns),
            is_own_clock: self.state.is_some_and(|state| state.is_own_clock),
            leap: self.state.map(|state| state.leap),
            ..ReadStatus::default()
        }
    }

    /// Its time between two stamps.
    ///
    /// # Errors
    /// No address yet, or no usable reply.
    pub fn read<S>(&mut self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        let reading = Self::read_all(&mut [self], stamp).pop();
        Ok(reading.unwrap_or_else(|| Err(self.unresolved()))?)
    }

    /// Its time minus CLOCK_REALTIME.
    ///
    /// # Errors
    /// As [`NtpSource::read`], or its time contradicts itself.
    pub fn offset(&mut self) -> Result<OffsetBound, SourceError> {
        let offset = Self::offset_all(&mut [self]).pop();
        offset.unwrap_or_else(|| Err(self.unresolved().into()))
    }

    /// As [`NtpSource::offset`], of each, as [`NtpSource::read_all`] queries
    /// them.
    pub fn offset_all(servers: &mut [&mut Self]) -> Vec<Result<OffsetBound, SourceError>> {
        let readings = Self::query_all(servers, now);
        let offset = |(server, reading): (&mut &mut Self, Result<_, NtpError>)| {
            let offset = offset(reading?, || format!("ntp {}", server.name));
            // A reply that contradicts itself is a failure too.
            server.count(offset.is_ok());
            offset
        };
        servers.iter_mut().zip(readings).map(offset).collect()
    }

    /// Reads each server, all at the same time: one that does not reply does
    /// not delay the others. In the order of the servers.
    pub fn read_all<S>(
        servers: &mut [&mut Self],
        stamp: impl Fn() -> S,
    ) -> Vec<Result<TimeReading<S>, NtpError>> {
        let readings = Self::query_all(servers, stamp);
        let replied = servers.iter_mut().zip(&readings).filter(|(_, reading)| reading.is_ok());
        replied.for_each(|(server, _)| server.count(true));
        readings
    }

    /// Replies that came are not counted yet: they may contradict themselves.
    fn query_all<S>(
        servers: &mut [&mut Self],
        stamp: impl Fn() -> S,
    ) -> Vec<Result<TimeReading<S>, NtpError>> {
        let begun = Instant::now();
        // All lookups have begun before the first is waited for.
        let found: Vec<Option<_>> = servers.iter_mut().map(|one| one.resolve_by(begun)).collect();
        // And none is, where a server can be queried meanwhile.
        let is_any_found = found.iter().any(|found| matches!(found, Some(Ok(()))));
        let find = |(server, found): (&mut &mut Self, Option<Result<(), NtpError>>)| {
            let wait = || server.resolve_by(begun + server.timeout - server.servers_part());
            let found = if is_any_found { found } else { found.or_else(wait) };
            found.unwrap_or_else(|| Err(server.unresolved()))?;
            server.check_kiss()
        };
        let found: Vec<_> = servers.iter_mut().zip(found).map(find).collect();
        let waited = if is_any_found { Duration::ZERO } else { begun.elapsed() };
        let queried = servers.iter().zip(&found).filter(|(_, found)| found.is_ok());
        let queried: Vec<_> = queried.filter_map(|(one, _)| one.server_after(waited)).collect();
        let queried: Vec<&NtpPeer> = queried.iter().collect();
        let mut replies = NtpPeer::query_all(&queried, stamp).into_iter();
        let reading = |(server, found): (&mut &mut Self, Result<(), NtpError>)| {
            found?;
            let reply = replies.next().unwrap_or_else(|| Err(server.unresolved()));
            server.take(reply)
        };
        servers.iter_mut().zip(found).map(reading).collect()
    }

    fn count(&mut self, is_success: bool) {
        self.failures = if is_success { 0 } else { self.failures.saturating_add(1) };
    }

    fn take<S>(
        &mut self,
        reply: Result<ServerReply<S>, NtpError>,
    ) -> Result<TimeReading<S>, NtpError> {
        if let NtpMode::Followed(_) = self.mode {
            self.kiss = reply.as_ref().err().and_then(Kiss::from_reply);
        }
        let ServerReply { reading, state } = reply.inspect_err(|_| self.count(false))?;
        self.state = Some(state);
        Ok(reading)
    }

    /// Whether it may be queried; else the kiss, which counts as a failure:
    /// after some its name may have another address.
    fn check_kiss(&mut self) -> Result<(), NtpError> {
        let kiss = self.kiss.as_ref().and_then(|kiss| kiss.holds(Instant::now()));
        let Some(kiss) = kiss else { return Ok(()) };
        self.failures = self.failures.saturating_add(1);
        Err(kiss.clone())
    }

    /// The server, with what is left of the timeout.
    fn server_after(&self, waited: Duration) -> Option<NtpPeer> {
        let left = self.timeout.saturating_sub(waited).max(self.servers_part());
        Some(self.server.as_ref()?.with_timeout(left))
    }

    fn servers_part(&self) -> Duration {
        self.timeout / SERVERS_PART
    }

    /// Whether its address is known at that time; nothing while the resolver
    /// has not replied.
    fn resolve_by(&mut self, until: Instant) -> Option<Result<(), NtpError>> {
        let NtpMode::Followed(resolve) = self.mode else { return Some(Ok(())) };
        let is_stale = self.failures >= FAILURES && NtpPeer::address_in(&self.name).is_none();
        if self.server.is_none() || is_stale {
            let left = until.saturating_duration_since(Instant::now());
            // There is no wait while there is an address to query.
            let wait = if self.server.is_none() { left } else { Duration::ZERO };
            match self.look_up(resolve, wait) {
                Some(Ok(server)) => self.replace(server),
                Some(Err(error)) if self.server.is_none() => return Some(Err(error)),
                // The known one may reply again.
                Some(Err(_)) => self.failures = 0,
                None => {}
            }
        }
        self.server.is_some().then_some(Ok(()))
    }

    /// This is its address now.
    fn replace(&mut self, server: NtpPeer) {
        if self.server.as_ref().is_some_and(|known| known.address() != server.address()) {
            // It came from another server.
            self.kiss = None;
        }
        (self.server, self.failures) = (Some(server), 0);
    }

    fn unresolved(&self) -> NtpError {
        let error = "the resolver has not replied yet".to_owned();
        NtpError::NoAddress { name: self.name.clone(), error }
    }

    /// The resolver's result, where it comes within `wait`; else it goes on.
    fn look_up(&mut self, resolve: Resolve, wait: Duration) -> Option<Result<NtpPeer, NtpError>> {
        if NtpPeer::address_in(&self.name).is_some() {
            return Some(resolve(&self.name, self.timeout));
        }
        let pending = match self.lookup.take() {
            Some(lookup) => lookup,
            None => match Lookup::begin(resolve, &self.name, self.timeout) {
                Ok(lookup) => lookup,
                Err(error) => return Some(Err(error)),
            },
        };
        let result = pending.result(wait);
        if result.is_none() {
            self.lookup = Some(pending);
        }
        result
    }
}

/// After RATE a server is not queried for this long.
const RATE_PAUSE: Duration = Duration::from_secs(64);

/// What a server replied that must not be queried.
#[derive(Debug)]
struct Kiss {
    error: NtpError,
    /// Until then; none: for ever.
    until: Option<Instant>,
}

impl Kiss {
    /// The kiss in a reply that came just now.
    fn from_reply(reply: &NtpError) -> Option<Self> {
        let until = reply.is_rate_limit().then(|| Instant::now() + RATE_PAUSE);
        let is_kiss = reply.is_stop() || reply.is_rate_limit();
        is_kiss.then(|| Self { error: reply.clone(), until })
    }

    /// The server's reply, while it holds.
    fn holds(&self, now: Instant) -> Option<&NtpError> {
        self.until.is_none_or(|until| now < until).then_some(&self.error)
    }
}

// Resolving a name without waiting for it: the system's resolver takes up to
// tens of seconds where no name server replies, and cannot be stopped.

/// What resolves a name: [`NtpPeer::find`], or a test's.
type Resolve = fn(&str, Duration) -> Result<NtpPeer, NtpError>;

/// A lookup that the resolver is working on, in a thread of its own that ends
/// with the result.
#[derive(Debug)]
struct Lookup {
    name: String,
    result: Receiver<Result<NtpPeer, NtpError>>,
}

impl Lookup {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    fn begin(resolve: Resolve, name: &str, timeout: Duration) -> Result<Self, NtpError> {
        let (send, result) = sync_channel(1);
        let wanted = name.to_owned();
        // Who samples clocks stays on one CPU, and the resolver need not.
        let free = linux::cpus::free();
        let look_up = move || {
            free.run();
            // The receiver may be gone.
            let _ = send.send(resolve(&wanted, timeout));
        };
        let begun = thread::Builder::new().name("resolver".into()).spawn(look_up);
        let name = name.to_owned();
        match begun {
            Ok(_) => Ok(Self { name, result }),
            Err(error) => Err(NtpError::NoAddress { name, error: error.to_string() }),
        }
    }

    /// The result, where it comes within `wait`.
    fn result(&self, wait: Duration) -> Option<Result<NtpPeer, NtpError>> {
        match self.result.recv_timeout(wait) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(NtpError::NoAddress {
                name: self.name.clone(),
                error: "the resolver's thread ended without a result".into(),
            })),
        }
    }
}

#[cfg(test)]
mod tests;
