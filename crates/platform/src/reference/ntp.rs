//! NTP: a request, an answer, and when both passed here.
//!
//! Packets are made and judged by `sntpc`. It keeps time in microseconds, and
//! by one clock; so its clock only gives it the year and a number hard to
//! guess, while our socket, through which its packets pass, notes all clocks
//! as late before sending and as early after receiving as can be.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use sntpc::{NtpContext, NtpResult, NtpTimestampGenerator, NtpUdpSocket};

use crate::clock::Clock;

/// NTP's port.
const PORT: u16 = 123;

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// Where an answer tells when the request arrived (RFC 5905, figure 8).
const RECEIVED_AT: std::ops::Range<usize> = 32..40;

/// An answer takes this long inside a server at most; NTP servers answer in
/// microseconds, and one that says otherwise is broken.
const LONGEST_INSIDE_NS: u64 = 1_000_000_000;

/// A server, found and ready to be asked.
#[derive(Debug)]
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

/// Why there is no answer to go by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NtpError {
    /// No such host.
    #[error("{name}: no address found: {error}")]
    NoAddress {
        /// The server as asked for.
        name: String,
        /// The resolver's words.
        error: String,
    },
    /// The network does not get there.
    #[error("{name}: cannot be reached: {error}")]
    Unreachable {
        /// The server as asked for.
        name: String,
        /// The system's words.
        error: String,
    },
    /// Something is there, and nothing listens on the port.
    #[error("{name}: nothing answers on UDP port {port}")]
    NothingListens {
        /// The server as asked for.
        name: String,
        /// Which port.
        port: u16,
    },
    /// Silence.
    #[error("{name}: no answer in {patience_ms} ms")]
    NoAnswer {
        /// The server as asked for.
        name: String,
        /// How long was waited.
        patience_ms: u128,
    },
    /// A kiss-o'-death (RFC 5905, section 7.4): leave, or ask less often.
    #[error("{name}: kiss-o'-death {code}")]
    Kiss {
        /// The server as asked for.
        name: String,
        /// Its four letters.
        code: String,
    },
    /// The server says that its own clock is not set.
    #[error("{name}: says that it is not synchronised")]
    NotSynchronised {
        /// The server as asked for.
        name: String,
    },
    /// What came is no answer to be trusted.
    #[error("{name}: wrong answer: {what}")]
    Wrong {
        /// The server as asked for.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

impl NtpError {
    /// Whether the server asked not to be asked again: RFC 5905 obliges a
    /// client to stop at DENY and RSTR.
    pub fn says_stop(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "DENY" || code == "RSTR")
    }

    /// Whether the server asked to be asked less often.
    pub fn says_slower(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "RATE")
    }
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

    /// As it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address: an answer from elsewhere is none.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks once; `stamp` reads this machine's clocks.
    ///
    /// # Errors
    /// There is no answer, or not one to go by.
    pub fn ask<S>(&self, stamp: impl Fn() -> S) -> Result<Exchange<S>, NtpError> {
        // A socket of its own for each request: what comes late for the last
        // one comes to a port that is closed.
        let socket = self.socket().map_err(|error| self.unreachable(&error))?;
        let stamped = Stamped {
            socket,
            address: self.address,
            until: Instant::now() + self.patience,
            stamp,
            seen: RefCell::new(Seen { sent: None, arrived: None, received: 0, error: None }),
        };
        let context = NtpContext::new(Nonce::default());
        let result = self.talk(&stamped, context);
        let seen = stamped.seen.into_inner();
        match (result, seen) {
            (Ok(result), Seen { sent: Some(sent), arrived: Some(arrived), received, .. }) => {
                self.exchange((sent, arrived), received, &result)
            }
            (Ok(_), _) => Err(self.wrong("it was never sent")),
            (Err(_), Seen { error: Some(error), .. }) => Err(self.io(&error)),
            (Err(error), _) => Err(self.judged(error)),
        }
    }

    fn talk<S, F: Fn() -> S>(
        &self,
        socket: &Stamped<S, F>,
        context: NtpContext<Nonce>,
    ) -> sntpc::Result<NtpResult> {
        let request = sntpc::sync::sntp_send_request(self.address, socket, context)?;
        loop {
            match sntpc::sync::sntp_process_response(self.address, socket, context, request) {
                // Not an answer to this request: the right one may follow.
                Err(sntpc::Error::IncorrectOriginTimestamp) => {}
                result => return result,
            }
        }
    }

    fn socket(&self) -> std::io::Result<UdpSocket> {
        let any: SocketAddr = match self.address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // Connected, so that the kernel passes on this server's packets alone,
        // and its ICMP errors.
        socket.connect(self.address)?;
        Ok(socket)
    }

    fn exchange<S>(
        &self,
        (sent, arrived): (S, S),
        received: u64,
        result: &NtpResult,
    ) -> Result<Exchange<S>, NtpError> {
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

    fn judged(&self, error: sntpc::Error) -> NtpError {
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

/// What passed the socket.
struct Seen<S> {
    sent: Option<S>,
    arrived: Option<S>,
    /// When the request arrived there, by the answer: 32.32 s since 1900.
    received: u64,
    error: Option<std::io::Error>,
}

/// A socket that notes the clocks.
struct Stamped<S, F: Fn() -> S> {
    socket: UdpSocket,
    address: SocketAddr,
    until: Instant,
    stamp: F,
    seen: RefCell<Seen<S>>,
}

impl<S, F: Fn() -> S> Stamped<S, F> {
    fn failed(&self, error: std::io::Error) -> sntpc::Error {
        self.seen.borrow_mut().error = Some(error);
        sntpc::Error::Network
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl<S, F: Fn() -> S> NtpUdpSocket for Stamped<S, F> {
    async fn send_to(&self, packet: &[u8], _: SocketAddr) -> sntpc::Result<usize> {
        let now = (self.stamp)();
        let sent = self.socket.send(packet).map_err(|error| self.failed(error))?;
        self.seen.borrow_mut().sent = Some(now);
        Ok(sent)
    }

    async fn recv_from(&self, buffer: &mut [u8]) -> sntpc::Result<(usize, SocketAddr)> {
        let length = self.receive(buffer).map_err(|error| self.failed(error))?;
        let now = (self.stamp)();
        let mut seen = self.seen.borrow_mut();
        seen.arrived = Some(now);
        if let Some(bytes) = buffer.get(RECEIVED_AT).and_then(|bytes| bytes.try_into().ok()) {
            seen.received = u64::from_be_bytes(bytes);
        }
        Ok((length, self.address))
    }
}

/// The time that a request carries and an answer must repeat: the right
/// second, for the era; the rest at random, so that it cannot be guessed.
#[derive(Debug, Clone, Copy, Default)]
struct Nonce {
    seconds: u64,
    micros: u32,
}

impl NtpTimestampGenerator for Nonce {
    fn init(&mut self) {
        self.seconds = Clock::Realtime.read_ns().unwrap_or_default() / 1_000_000_000;
        self.micros = (RandomState::new().build_hasher().finish() % 1_000_000) as u32;
    }

    fn timestamp_sec(&self) -> u64 {
        self.seconds
    }

    fn timestamp_subsec_micros(&self) -> u32 {
        self.micros
    }
}

#[cfg(test)]
mod tests;
