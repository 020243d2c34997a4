//! What ntpd and ntpsec's ntpd measured, by NTP's control messages (RFC 9327; `ntpq -c rv`),
//! which both answer on loopback. adjtimex shows what the kernel still has to slew, and
//! nothing while ntpd waits for 5 min whether an offset beyond 128 ms lasts.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use fleet::DaemonTracking;

/// ntpd replies within milliseconds; one that may not be asked does not reply at all.
const TIMEOUT: Duration = Duration::from_millis(200);

const HEADER: usize = 12;
/// A reply is no longer than this without being split (RFC 9327, section 2).
const MOST_DATA: usize = 468;

/// Version 2, mode 6: what ntpq sends.
const CONTROL: u8 = 2 << 3 | 6;
const READ_VARIABLES: u8 = 2;
const RESPONSE: u8 = 0x80;
const ERROR: u8 = 0x40;
const MORE: u8 = 0x20;

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: f64 = 2_208_988_800.0;
/// What a clock may drift from one poll to the next (RFC 5905, PHI).
const PHI: f64 = 15e-6;

type Variables = BTreeMap<String, String>;

/// What the ntpd on this machine measured of its system peer; none if there is no such peer,
/// or no reply. `now_s` is CLOCK_REALTIME, s since 1970.
pub(crate) fn followed(now_s: f64) -> Option<DaemonTracking> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 123));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.connect(address).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    let system = read(&socket, 1, 0, "peer").ok()?;
    let peer = system.get("peer")?.parse().ok().filter(|peer| *peer != 0)?;
    let names = "filtoffset,filtdelay,filtdisp,rootdelay,rootdisp,rec";
    of_peer(&read(&socket, 2, peer, names).ok()?, now_s)
}

/// The newest of the peer's eight measurements: `offset` itself is of the one with the
/// shortest delay, which may be eight polls old. Figures are ms, of which ntpd writes two
/// decimal places.
fn of_peer(variables: &Variables, now_s: f64) -> Option<DaemonTracking> {
    const ROUNDING_S: f64 = 2e-5;
    let figures = |name: &str| -> Option<Vec<f64>> {
        let words = variables.get(name)?.split_whitespace();
        Some(words.filter_map(|word| word.parse().ok()).map(|ms: f64| ms / 1e3).collect())
    };
    // Newest first. ntpsec 1.2.2 writes bytes of no meaning and the lists before this one
    // ahead of it, so it is the last eight that count.
    let newest = |name: &str| figures(name)?.iter().nth_back(7).copied().filter(|s| s.is_finite());
    let root = |name: &str| figures(name)?.first().copied().filter(|s| s.is_finite());
    let offset_s = newest("filtoffset")?;
    let age_s = (now_s - unix_s(variables.get("rec")?)?).max(0.0);
    let bound_s = newest("filtdelay")? / 2.0
        + newest("filtdisp")?
        + root("rootdelay")? / 2.0
        + root("rootdisp")?
        + PHI * age_s
        + ROUNDING_S;
    Some(DaemonTracking { offset_s, last_offset_s: offset_s, bound_s, age_s: Some(age_s) })
}

/// `0xeccc8a44.0de82c2f`: s since 1970, of NTP's first era, which ends in 2036.
fn unix_s(text: &str) -> Option<f64> {
    let (s, fraction) = text.strip_prefix("0x")?.split_once('.')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(f64::from);
    Some(number(s)? - UNIX_EPOCH_S + number(fraction)? / 2_f64.powi(32))
}

/// Asks for variables of an association, 0 for the system's own.
fn read(socket: &UdpSocket, sequence: u16, association: u16, names: &str) -> Result<Variables> {
    socket.send(&request(sequence, association, names))?;
    let mut buffer = [0; HEADER + MOST_DATA];
    // Another's reply may be in the way: a late one to an earlier request.
    for _ in 0..4 {
        let length = socket.recv(&mut buffer)?;
        if let Some(variables) = parse(buffer.get(..length).unwrap_or_default(), sequence) {
            return variables;
        }
    }
    Err(Error::from(ErrorKind::TimedOut))
}

fn request(sequence: u16, association: u16, names: &str) -> Vec<u8> {
    let mut packet = vec![CONTROL, READ_VARIABLES];
    let count = names.len() as u16;
    for word in [sequence, 0, association, 0, count] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(names.as_bytes());
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet
}

/// A reply's variables; none if it is not the reply to that request.
fn parse(packet: &[u8], sequence: u16) -> Option<Result<Variables>> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (mode, operation) = (packet.first()? & 7, *packet.get(1)?);
    if mode != 6
        || operation & (RESPONSE | 0x1f) != RESPONSE | READ_VARIABLES
        || word(2)? != sequence
    {
        return None;
    }
    // What was asked for fits into one packet.
    if operation & (ERROR | MORE) != 0 || word(8)? != 0 {
        return Some(Err(Error::from(ErrorKind::InvalidData)));
    }
    let data = packet.get(HEADER..HEADER + usize::from(word(10)?))?;
    let text = String::from_utf8_lossy(data);
    // A line holds variables, or one list.
    let of_line = |line: &str| -> Vec<(String, String)> {
        let is_list = line.starts_with("filt");
        let parts = line.splitn(if is_list { 1 } else { usize::MAX }, ',');
        let pair = |(name, value): (&str, &str)| {
            let value = value.trim().trim_end_matches(',').trim_matches('"');
            (name.trim().to_owned(), value.to_owned())
        };
        parts.filter_map(|part| part.split_once('=').map(pair)).collect()
    };
    Some(Ok(text.split("\r\n").flat_map(of_line).collect()))
}

#[cfg(test)]
mod tests;
