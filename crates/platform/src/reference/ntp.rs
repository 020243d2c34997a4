//! NTP: a request, an answer, and when both passed here.
//!
//! Packets are made and judged by `sntpc`. It keeps time in microseconds, and
//! by one clock; so its clock only gives it the year and a number hard to
//! guess, while our own socket, through which its packets pass, notes all clocks.

mod error;
mod request;
mod wire;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use sntpc::NtpResult;

pub use error::NtpError;
use request::Request;
use wire::Seen;
pub use wire::Wire;

/// NTP's port.
const PORT: u16 = 123;

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// An answer takes this long inside a server at most; NTP servers answer in
/// microseconds, and one that says otherwise is broken.
const LONGEST_INSIDE_NS: u64 = 1_000_000_000;

/// A server, found and ready to be asked.
#[derive(Debug, Clone)]
pub struct NtpServer {
    name: String,
    address: SocketAddr,
    patience: Duration,
}

/// An answer, and all clocks before and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange<S> {
    /// The clocks just before the request left.
    pub sent: S,
    /// When the server received it, ns since 1970 by its clock.
    pub received_ns: u64,
    /// When the server answered, ns since 1970 by its clock.
    pub answered_ns: u64,
    /// The clocks just after the answer arrived.
    pub arrived: S,
    /// Steps from a reference clock.
    pub stratum: u8,
    /// Half the server's root delay and its root dispersion, ns: how far off
    /// the server may be by its own word.
    pub root_distance_ns: u64,
    /// 1: the day's last minute has 61 s; 2: it has 59; 0: neither.
    pub leap: u8,
}

impl NtpServer {
    /// Finds `name`: `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`. An answer is
    /// waited for as long as `patience`.
    ///
    /// # Errors
    /// It has no address.
    pub fn find(name: &str, patience: Duration) -> Result<Self, NtpError> {
        let no_address = |error: String| NtpError::NoAddress { name: name.to_owned(), error };
        let (host, port) = host_and_port(name).map_err(no_address)?;
        let mut addresses =
            (host, port).to_socket_addrs().map_err(|error| no_address(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| no_address("an empty list".into()))?;
        Ok(Self { name: name.to_owned(), address, patience })
    }

    /// Whether `name` can be that of a server, as [`NtpServer::find`] takes it.
    ///
    /// # Errors
    /// What is wrong with it, which it is part of.
    pub fn check_name(name: &str) -> Result<(), String> {
        let (host, _) = host_and_port(name)?;
        let is_fit = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        match host.chars().all(is_fit) {
            true => Ok(()),
            false => Err(format!("{name:?} is no name of a host")),
        }
    }

    /// The address that `name` itself is, for which nobody has to be asked.
    pub fn address_in(name: &str) -> Option<SocketAddr> {
        let (host, port) = host_and_port(name).ok()?;
        Some((host.parse::<IpAddr>().ok()?, port).into())
    }

    /// As it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address: an answer from elsewhere is none.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same, whose answer is waited for as long as this.
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Asks once; `stamp` reads this machine's clocks.
    ///
    /// # Errors
    /// There is no answer, or not one to go by.
    pub fn ask<S>(&self, stamp: impl Fn() -> S) -> Result<Exchange<S>, NtpError> {
        let answer = Self::ask_all(&[self], stamp).pop();
        answer.unwrap_or_else(|| Err(self.wrong("it was never asked")))
    }

    /// Asks each once, all at the same time: who does not answer keeps nobody
    /// waiting for the others. Answers in the order of the servers.
    pub fn ask_all<S>(
        servers: &[&Self],
        stamp: impl Fn() -> S,
    ) -> Vec<Result<Exchange<S>, NtpError>> {
        request::ask_all(servers, stamp)
    }

    /// Asks once, by another way than a socket.
    ///
    /// # Errors
    /// There is no answer, or not one to go by.
    pub fn ask_over<S>(
        &self,
        wire: &impl Wire,
        stamp: impl Fn() -> S,
    ) -> Result<Exchange<S>, NtpError> {
        let mut request = Request::send(self, wire, stamp)?;
        request.answer().unwrap_or_else(|| Err(request.given_up()))
    }

    fn exchange<S>(&self, seen: Seen<S>, result: &NtpResult) -> Result<Exchange<S>, NtpError> {
        let Seen { sent: Some(sent), arrived: Some(arrived), received, .. } = seen else {
            return Err(self.wrong("it was never sent"));
        };
        let answered = ((result.sec() + UNIX_EPOCH_S) << 32) | u64::from(result.sec_fraction());
        // In 2^-32 s; an era's end may lie between the two.
        let inside_ns = nanoseconds(answered.wrapping_sub(received));
        if received == 0 || inside_ns > LONGEST_INSIDE_NS {
            return Err(self.wrong("it was sent before the request arrived, or long after"));
        }
        let answered_ns = result.sec().checked_mul(1_000_000_000);
        let answered_ns =
            answered_ns.and_then(|ns| ns.checked_add(nanoseconds(result.sec_fraction().into())));
        let Some((answered_ns, received_ns)) =
            answered_ns.and_then(|ns| Some((ns, ns.checked_sub(inside_ns)?)))
        else {
            return Err(self.wrong("its time is out of range"));
        };
        let distance = u64::from(result.root_delay() / 2) + u64::from(result.root_dispersion());
        Ok(Exchange {
            sent,
            received_ns,
            answered_ns,
            arrived,
            stratum: result.stratum(),
            // In 2^-16 s.
            root_distance_ns: nanoseconds(distance << 16),
            leap: result.leap_indicator(),
        })
    }

    /// Why there is no answer: what befell the socket, or else what is wrong
    /// with the answer.
    fn failed(&self, by_socket: Option<std::io::Error>, error: sntpc::Error) -> NtpError {
        if let Some(error) = by_socket {
            return self.io(&error);
        }
        match error {
            sntpc::Error::KissOfDeath(code) => {
                let code = code.as_str().chars().filter(char::is_ascii_graphic).collect();
                NtpError::Kiss { name: self.name.clone(), code }
            }
            sntpc::Error::UnsynchronizedClock => {
                NtpError::NotSynchronised { name: self.name.clone() }
            }
            other => self.wrong(&format!("{other:?}")),
        }
    }

    fn wrong(&self, what: &str) -> NtpError {
        NtpError::Wrong { name: self.name.clone(), what: what.to_owned() }
    }

    fn unreachable(&self, error: &std::io::Error) -> NtpError {
        NtpError::Unreachable { name: self.name.clone(), error: error.to_string() }
    }

    fn io(&self, error: &std::io::Error) -> NtpError {
        let name = self.name.clone();
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                NtpError::NoAnswer { name, patience_ms: self.patience.as_millis() }
            }
            ErrorKind::ConnectionRefused => {
                NtpError::NothingListens { name, port: self.address.port() }
            }
            _ => self.unreachable(error),
        }
    }
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]`, `[ADDRESS]:PORT`, or a bare IPv6 address.
fn host_and_port(name: &str) -> Result<(&str, u16), String> {
    if name.parse::<Ipv6Addr>().is_ok() {
        return Ok((name, PORT));
    }
    let port = |text: &str| {
        text.parse().ok().filter(|port| *port > 0).ok_or(format!("{text:?} is no port"))
    };
    let (host, port) = match name.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, PORT),
            Some((host, rest)) => {
                (host, port(rest.strip_prefix(':').ok_or("a colon and a port go after ]")?)?)
            }
            None => return Err("a ] is missing".into()),
        },
        None => match name.split_once(':') {
            Some((host, text)) => (host, port(text)?),
            None => (name, PORT),
        },
    };
    if host.is_empty() { Err("no host".into()) } else { Ok((host, port)) }
}

/// Nanoseconds of a 32.32 fixed-point number of seconds.
fn nanoseconds(fixed: u64) -> u64 {
    ((u128::from(fixed) * 1_000_000_000) >> 32) as u64
}

#[cfg(test)]
mod tests;
