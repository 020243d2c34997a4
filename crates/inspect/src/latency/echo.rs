//! Messages to a peer and back: one at a time, a bounded number of them.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use instruments::latency::{EchoReplies, Protocol, answered, request};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::{LatencyRun, now_ns};

/// Requests of a run, at most.
const REQUESTS: u64 = 1000;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whom to ask, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoPeer {
    /// How.
    pub protocol: Protocol,
    /// Host, with a port but for ICMP.
    pub host: String,
}

impl EchoPeer {
    /// `HOST` (ICMP echo), `udp:HOST[:PORT]` (by default 7, echo), or
    /// `ntp:HOST[:PORT]` (123).
    ///
    /// # Errors
    /// What was expected.
    ///
    /// ```
    /// let peer = inspect::latency::EchoPeer::parse("ntp:time.example").unwrap();
    /// assert_eq!(peer.host, "time.example:123");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let (protocol, host, port) = match text.split_once(':') {
            Some(("udp", host)) => (Protocol::Udp, host, 7),
            Some(("ntp", host)) => (Protocol::Ntp, host, 123),
            _ => (Protocol::Icmp, text.trim_matches(['[', ']']), 0),
        };
        let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
            port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
        });
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/';
        if host.is_empty() || host.contains(odd) {
            return Err(format!(
                "expected HOST, udp:HOST[:PORT] or ntp:HOST[:PORT], found {text:?}"
            ));
        }
        let host = match protocol {
            Protocol::Icmp => host.to_owned(),
            _ if has_port => host.to_owned(),
            _ if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
            _ => format!("{host}:{port}"),
        };
        Ok(Self { protocol, host })
    }

    /// Time between two requests: other people run NTP servers.
    fn interval(&self, address: IpAddr) -> Duration {
        let near = match address {
            IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
        };
        match (self.protocol, near) {
            (Protocol::Ntp, false) => Duration::from_secs(4),
            (_, false) => Duration::from_millis(100),
            (_, true) => Duration::from_millis(10),
        }
    }

    fn address(&self) -> std::io::Result<SocketAddr> {
        let mut found = match self.protocol {
            Protocol::Icmp => (self.host.as_str(), 0).to_socket_addrs()?,
            _ => self.host.to_socket_addrs()?,
        };
        found.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into())
    }
}

/// Asks the plan's peer for `length`.
pub(super) fn measure(run: &mut LatencyRun<'_>, cpu: u32, length: Duration) {
    let Some(peer) = run.plan.peer.clone() else { return };
    const KIND: FigureKind = FigureKind::Echo;
    run.doing(KIND.name());
    let opened = peer.address().and_then(|to| Ok((to, open(peer.protocol, to)?)));
    let (to, socket) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let why = "needs net.ipv4.ping_group_range to include this user's group; \
                       udp:HOST and ntp:HOST need nothing";
            return run.found.miss(KIND.name(), why);
        }
        Err(error) => return run.found.miss(KIND.name(), format!("{}: {error}", peer.host)),
    };
    let Some(_pinned) = run.pinned(KIND.name(), cpu) else { return };
    let mut samples = Distribution::new();
    let mut answers = EchoReplies { peer: peer.host.clone(), ..EchoReplies::default() };
    let (secret, interval) = (now_ns().rotate_left(32), peer.interval(to.ip()));
    let ends = Instant::now() + length;
    while answers.sent < REQUESTS && (answers.sent == 0 || Instant::now() < ends) {
        let (number, sent) = (answers.sent, Instant::now());
        let bytes = request(peer.protocol, to.is_ipv6(), secret, number);
        // Refused by the peer's host, or no route: as good as no answer.
        if socket.send(&bytes).is_ok() {
            let judge = |bytes: &[u8]| answered(peer.protocol, to.is_ipv6(), secret, bytes);
            if wait(&socket, sent, |bytes| answers.count(number, judge(bytes))) {
                samples.record(sent.elapsed().as_nanos() as f64);
            }
        }
        answers.sent += 1;
        let next = (sent + interval).min(ends);
        if let Some(pause) = next.checked_duration_since(Instant::now()) {
            std::thread::sleep(pause);
        }
    }
    run.found.answers = Some(answers);
    run.found.add_figure(KIND, &samples);
}

/// Whether the right answer came in time. Datagrams from other addresses do not
/// arrive on a connected socket.
fn wait(socket: &UdpSocket, sent: Instant, mut is_right: impl FnMut(&[u8]) -> bool) -> bool {
    let mut bytes = [0; 512];
    loop {
        let left = PATIENCE.saturating_sub(sent.elapsed());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match socket.recv(&mut bytes) {
            Ok(length) if is_right(&bytes[..length]) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// A socket that is connected to the peer.
fn open(protocol: Protocol, to: SocketAddr) -> std::io::Result<UdpSocket> {
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let kind = match (protocol, to.is_ipv6()) {
        (Protocol::Icmp, false) => Some(ipproto::ICMP),
        (Protocol::Icmp, true) => Some(ipproto::ICMPV6),
        _ => None,
    };
    let socket: OwnedFd = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, kind)?;
    let socket = UdpSocket::from(socket);
    socket.connect(to)?;
    Ok(socket)
}
