//! An NTP server's time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::NoOffset;
use super::offset::{Moment, Offset, Told};
use crate::reference::ntp::{Exchange, NtpError, NtpServer};
use facts::Unknown;

mod kiss;
mod lookup;

use kiss::Kiss;
use lookup::{Find, Lookup};

/// A server that gave so many answers in a row that are none is looked up
/// again: its name may have another address by now.
const FAILURES: u32 = 4;

/// This part of its patience is the server's own, however long the resolver
/// takes.
const ANSWERS_PART: u32 = 10;

/// A server, looked up when it is first asked: the network may come later.
#[derive(Debug)]
pub struct NtpTime {
    name: String,
    patience: Duration,
    find: Find,
    found: Option<NtpServer>,
    lookup: Option<Lookup>,
    /// Answers that were none, since the last one or the last lookup.
    failures: u32,
    kiss: Option<Kiss>,
}

impl NtpTime {
    /// The server `name`, as [`NtpServer::find`] takes it. The resolver and the
    /// server together are waited for no longer than `patience`.
    pub fn named(name: &str, patience: Duration) -> Self {
        Self::found_by(NtpServer::find, name, patience)
    }

    fn found_by(find: Find, name: &str, patience: Duration) -> Self {
        let name = name.to_owned();
        Self { name, patience, find, found: None, lookup: None, failures: 0, kiss: None }
    }

    /// As it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it was found; nothing before it was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.found.as_ref().map(NtpServer::address)
    }

    /// How far the server's time is from CLOCK_REALTIME.
    ///
    /// # Errors
    /// No address yet, or no answer to go by.
    pub fn compare(&mut self) -> Result<Offset, NoOffset> {
        let told = Self::compare_all(&mut [self]).pop();
        told.unwrap_or_else(|| Err(self.not_found().into()))
    }

    /// How far each server's time is, all asked at the same time: who does not
    /// answer keeps nobody waiting for the others. In the order of the
    /// servers.
    pub fn compare_all(servers: &mut [&mut Self]) -> Vec<Result<Offset, NoOffset>> {
        let begun = Instant::now();
        // All lookups are under way before the first is waited for.
        let found: Vec<Option<_>> = servers.iter_mut().map(|one| one.find_by(begun)).collect();
        // And none is, where somebody can be asked meanwhile.
        let is_any_found = found.iter().any(|found| matches!(found, Some(Ok(()))));
        let find = |(server, found): (&mut &mut Self, Option<Result<(), NtpError>>)| {
            let wait = || server.find_by(begun + server.patience - server.answers_part());
            let found = if is_any_found { found } else { found.or_else(wait) };
            found.unwrap_or_else(|| Err(server.not_found()))?;
            server.may_be_asked()
        };
        let found: Vec<_> = servers.iter_mut().zip(found).map(find).collect();
        let waited = if is_any_found { Duration::ZERO } else { begun.elapsed() };
        let asked = servers.iter().zip(&found).filter(|(_, found)| found.is_ok());
        let asked: Vec<_> = asked.filter_map(|(one, _)| one.found_after(waited)).collect();
        let asked: Vec<&NtpServer> = asked.iter().collect();
        let mut answers = NtpServer::ask_all(&asked, Moment::now).into_iter();
        let told = |(server, found): (&mut &mut Self, Result<(), NtpError>)| {
            found?;
            let exchange = answers.next().unwrap_or_else(|| Err(server.not_found()));
            server.told(exchange)
        };
        servers.iter_mut().zip(found).map(told).collect()
    }

    fn told(
        &mut self,
        exchange: Result<Exchange<Result<Moment, Unknown>>, NtpError>,
    ) -> Result<Offset, NoOffset> {
        self.kiss = exchange.as_ref().err().and_then(Kiss::of);
        let offset = exchange.map_err(NoOffset::from).and_then(|exchange| {
            let (sent, arrived) = (exchange.sent.clone()?, exchange.arrived.clone()?);
            told(&exchange).between(|| format!("ntp {}", self.name), sent, arrived)
        });
        self.failures = if offset.is_ok() { 0 } else { self.failures.saturating_add(1) };
        offset
    }

    /// Whether it may; else what it said, which is no answer either: after some
    /// its name may have another address.
    fn may_be_asked(&mut self) -> Result<(), NtpError> {
        let kiss = self.kiss.as_ref().and_then(|kiss| kiss.holds(Instant::now()));
        let Some(said) = kiss else { return Ok(()) };
        self.failures = self.failures.saturating_add(1);
        Err(said.clone())
    }

    /// The server, with what is left of its patience.
    fn found_after(&self, waited: Duration) -> Option<NtpServer> {
        let left = self.patience.saturating_sub(waited).max(self.answers_part());
        Some(self.found.as_ref()?.with_patience(left))
    }

    fn answers_part(&self) -> Duration {
        self.patience / ANSWERS_PART
    }

    /// Whether its address is known at that time; nothing while the resolver
    /// has not answered.
    fn find_by(&mut self, until: Instant) -> Option<Result<(), NtpError>> {
        let is_stale = self.failures >= FAILURES && NtpServer::address_in(&self.name).is_none();
        if self.found.is_none() || is_stale {
            let left = until.saturating_duration_since(Instant::now());
            // Nobody is waited for while there is an address to ask.
            let wait = if self.found.is_none() { left } else { Duration::ZERO };
            match self.look_up(wait) {
                Some(Ok(server)) => self.take(server),
                Some(Err(error)) if self.found.is_none() => return Some(Err(error)),
                // The one that is known may answer again.
                Some(Err(_)) => self.failures = 0,
                None => {}
            }
        }
        self.found.is_some().then_some(Ok(()))
    }

    /// This is its address now.
    fn take(&mut self, server: NtpServer) {
        if self.found.as_ref().is_some_and(|known| known.address() != server.address()) {
            // It was another that said so.
            self.kiss = None;
        }
        (self.found, self.failures) = (Some(server), 0);
    }

    fn not_found(&self) -> NtpError {
        let error = "the resolver has not answered yet".to_owned();
        NtpError::NoAddress { name: self.name.clone(), error }
    }

    /// What the resolver says, where it does within `wait`; else it goes on.
    fn look_up(&mut self, wait: Duration) -> Option<Result<NtpServer, NtpError>> {
        if NtpServer::address_in(&self.name).is_some() {
            return Some((self.find)(&self.name, self.patience));
        }
        let under_way = match self.lookup.take() {
            Some(lookup) => lookup,
            None => match Lookup::begin(self.find, &self.name, self.patience) {
                Ok(lookup) => lookup,
                Err(error) => return Some(Err(error)),
            },
        };
        let said = under_way.answer(wait);
        if said.is_none() {
            self.lookup = Some(under_way);
        }
        said
    }
}

/// What an answer tells. The server's two times lie between our two, and each
/// bounds the offset from one side (RFC 5905, figure 9): it received no
/// earlier than we sent, and answered no later than the answer came.
fn told<S>(exchange: &Exchange<S>) -> Told {
    let distance = i128::from(exchange.root_distance_ns);
    Told {
        earliest_ns: i128::from(exchange.answered_ns) - distance,
        latest_ns: i128::from(exchange.received_ns) + distance,
    }
}

#[cfg(test)]
mod tests;
