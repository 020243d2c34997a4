//! One NTP server at one address: a request, a reply, and the caller's clocks
//! at both.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::wire::ntp::{Packet, UnusableReply};
use pvclock::units::{Interval, TimeReading};

use super::error::NtpError;

/// NTP's port.
const PORT: u16 = 123;

/// A reply takes this long inside a server at most; NTP servers reply in
/// microseconds, and one that states otherwise is broken.
const LONGEST_INSIDE_NS: u64 = 1_000_000_000;

/// Whether a server names its own clock as its reference: the address of ntpd's driver for the
/// local clock, 127.127.1.0 (refclock_local.c), which chronyd's `local` has as 127.127.1.1
/// (reference.c, NTP_REFID_LOCAL), or the code `LOCL` (RFC 5905, figure 12).
fn is_own_clock(reference_id: [u8; 4]) -> bool {
    matches!(reference_id, [127, 127, 1, _]) || reference_id == *b"LOCL"
}

/// A server whose address is known.
#[derive(Debug, Clone)]
pub struct NtpPeer {
    name: String,
    address: SocketAddr,
    timeout: Duration,
}

/// A server's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReply<S> {
    /// The caller's clocks right before the request and right after the reply;
    /// the server's when it received the one and sent the other.
    pub reading: TimeReading<S>,
    /// What the server states about itself.
    pub state: ServerState,
}

/// What a server states about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerState {
    /// Steps from a reference clock.
    pub stratum: u8,
    /// Half the server's root delay and its root dispersion, ns: how far off
    /// the server may be.
    pub root_distance_ns: u64,
    /// It follows its own clock: no reference outside that machine shows its time.
    pub is_own_clock: bool,
    /// 1: the day's last minute has 61 s; 2: it has 59; 0: neither.
    pub leap: u8,
}

impl NtpPeer {
    /// Finds `name`: `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`. A reply is
    /// waited for as long as `timeout`.
    ///
    /// # Errors
    /// It has no address.
    pub fn find(name: &str, timeout: Duration) -> Result<Self, NtpError> {
        let no_address = |error: String| NtpError::NoAddress { name: name.to_owned(), error };
        let (host, port) = host_and_port(name).map_err(no_address)?;
        let mut addresses =
            (host, port).to_socket_addrs().map_err(|error| no_address(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| no_address("an empty list".into()))?;
        Ok(Self { name: name.to_owned(), address, timeout })
    }

    /// Whether `name` can be that of a server, as [`NtpPeer::find`] takes it.
    ///
    /// # Errors
    /// What is wrong with it; the name is part of that.
    pub fn check_name(name: &str) -> Result<(), String> {
        let (host, _) = host_and_port(name)?;
        let is_fit = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        if host.chars().all(is_fit) { Ok(()) } else { Err(format!("{name:?} is no host name")) }
    }

    /// The address that `name` itself is, where no resolver is needed.
    pub fn address_in(name: &str) -> Option<SocketAddr> {
        let (host, port) = host_and_port(name).ok()?;
        Some((host.parse::<IpAddr>().ok()?, port).into())
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address: a reply from elsewhere is none.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same, with this timeout.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The reply in a packet that repeats the request's number, with the caller's clocks before
    /// the request and after the reply; the era is the one nearest to `near_ns`.
    pub(super) fn reply<S>(
        &self,
        packet: &Packet,
        (before, after): (S, S),
        near_ns: u64,
    ) -> Result<ServerReply<S>, NtpError> {
        packet.check().map_err(|refusal| self.refused(refusal))?;
        let inside_ns = packet.transmit.since_ns(packet.receive);
        if packet.receive.is_none() || inside_ns > LONGEST_INSIDE_NS {
            return Err(self.invalid("it was sent before the request arrived, or long after"));
        }
        let transmitted_ns = u64::try_from(packet.transmit.unix_ns(near_ns.into())).ok();
        let times = transmitted_ns.and_then(|sent| Some((sent.checked_sub(inside_ns)?, sent)));
        let Some((received_ns, transmitted_ns)) = times else {
            return Err(self.invalid("its time is out of range"));
        };
        let root_distance_ns = packet.root_distance_ns();
        // The server's two times lie between our two, and each bounds the
        // offset from one side (RFC 5905, figure 9): it received no earlier
        // than we sent, and transmitted no later than its reply arrived.
        let utc_ns = Interval {
            low: i128::from(transmitted_ns) - i128::from(root_distance_ns),
            high: i128::from(received_ns) + i128::from(root_distance_ns),
        };
        let shown_ns = (received_ns, transmitted_ns);
        let reading = TimeReading { before, utc_ns, shown_ns, cross_timestamp: None, after };
        let state = ServerState {
            stratum: packet.stratum,
            root_distance_ns,
            is_own_clock: is_own_clock(packet.reference_id),
            leap: packet.leap,
        };
        Ok(ServerReply { reading, state })
    }

    fn refused(&self, refusal: UnusableReply) -> NtpError {
        let name = self.name.clone();
        match refusal {
            UnusableReply::Kiss(code) => {
                let letters = code.into_iter().map(char::from).filter(char::is_ascii_graphic);
                NtpError::Kiss { name, code: letters.collect() }
            }
            UnusableReply::Unsynchronised => NtpError::NotSynchronised { name },
            other => self.invalid(&other.to_string()),
        }
    }

    pub(super) fn invalid(&self, what: &str) -> NtpError {
        NtpError::Invalid { name: self.name.clone(), what: what.to_owned() }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn io(&self, error: &std::io::Error) -> NtpError {
        let name = self.name.clone();
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                NtpError::Timeout { name, timeout_ms: self.timeout.as_millis() }
            }
            ErrorKind::ConnectionRefused => NtpError::Refused { name, port: self.address.port() },
            _ => NtpError::Unreachable { name, error: error.to_string() },
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
                (host, port(rest.strip_prefix(':').ok_or("only :PORT may follow ]")?)?)
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

#[cfg(test)]
mod tests;
