//! NTP's packet as the nodes of a pair use it: plain, and in interleaved mode (RFC 9769, section
//! 2), in which a reply contains when the one before it was sent.

pub use sources::wire::ntp::LENGTH;
use sources::wire::ntp::{CLIENT, Packet, SERVER, Timestamp, UNSYNCHRONISED};

/// A request with this number, which cannot be guessed. It asks when the reply to an earlier one
/// was sent, which arrived at `arrival` by the peer's clock. A peer that knows replies to the
/// number `shown`, any other to `number`.
pub(crate) fn request(arrival: u64, shown: u64, number: u64) -> Packet {
    let (origin, receive) = (Timestamp(arrival), Timestamp(shown));
    Packet { origin, receive, ..Packet::request(number) }
}

/// The arrival of an earlier request of which this one asks when it was replied to; none of a
/// plain one.
pub(crate) fn interleaved_arrival(request: &Packet) -> Option<u64> {
    let is_interleaved = !request.origin.is_none() && request.receive != request.transmit;
    is_interleaved.then_some(request.origin.0)
}

/// A client's request of version 3 or 4 as long as a packet without extensions and MAC: no
/// reply is longer than its request, and two responders never answer each other.
pub(crate) fn parse_request(bytes: &[u8]) -> Option<Packet> {
    let request = Packet::decode(bytes).filter(|_| bytes.len() == LENGTH)?;
    (request.mode == CLIENT && matches!(request.version, 3 | 4)).then_some(request)
}

/// The reply to a request that arrived then and is replied to now. It reports a clock that is
/// not synchronised: this is no server of the time of day, and no NTP client may take it for one.
pub(crate) fn plain_reply(request: &Packet, received_ns: i64, sent_ns: i64) -> Packet {
    Packet {
        leap: UNSYNCHRONISED,
        version: request.version,
        mode: SERVER,
        poll: request.poll,
        precision: -20,
        origin: request.transmit,
        receive: Timestamp::from_unix_ns(received_ns),
        transmit: Timestamp::from_unix_ns(sent_ns),
        ..Packet::default()
    }
}

/// The reply to any bytes that arrived then and are replied to at once; `None` unless they are a
/// request that a responder answers.
pub fn reply(request: &[u8], received_ns: i64) -> Option<[u8; LENGTH]> {
    Some(plain_reply(&parse_request(request)?, received_ns, received_ns).encode())
}

/// A reply of any NTP server, synchronised or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerReply {
    /// The number of the request that it replies to.
    pub replies_to: u64,
    /// When that request arrived, as the peer wrote it.
    pub(crate) arrival: u64,
    /// What it contains.
    pub content: ReplyContent,
}

/// What a reply contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyContent {
    /// When the request arrived there and the reply was sent, ns since 1970.
    Times {
        /// Arrived, rounded up.
        received_ns: i64,
        /// Sent, rounded down.
        sent_ns: i64,
    },
    /// A kiss-o'-death, by its code: it must not be asked, or less often.
    Kiss([u8; 4]),
}

impl PeerReply {
    /// The reply in the bytes that came, if there is one. The era is the one nearest to `near_ns`.
    pub fn parse(packet: &[u8], near_ns: i64) -> Option<Self> {
        let packet = Packet::decode(packet).filter(|packet| packet.mode == SERVER)?;
        let time = |stamp: Timestamp| stamp.unix_ns(near_ns.into()) as i64;
        let kiss = packet.kiss().filter(|code| matches!(code, b"DENY" | b"RSTR" | b"RATE"));
        let content = match kiss {
            Some(code) => ReplyContent::Kiss(code),
            // A server that never had the time sends 0.
            None if packet.receive.is_none() || packet.transmit.is_none() => return None,
            None => ReplyContent::Times {
                received_ns: time(packet.receive).saturating_add(1),
                sent_ns: time(packet.transmit),
            },
        };
        Some(Self { replies_to: packet.origin.0, arrival: packet.receive.0, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_when_to_a_nanosecond_in_any_era() {
        for at_ns in
            [1_700_000_000_123_456_789, 2_085_978_495_999_999_999, 2_085_978_497_000_000_001]
        {
            let asked = parse_request(&request(0, 0, 7).encode()).unwrap();
            let packet = plain_reply(&asked, at_ns, at_ns + 5_000).encode();
            let near_ns = at_ns - 40 * 365 * 86_400 * 1_000_000_000;
            let parsed = PeerReply::parse(&packet, near_ns).unwrap();
            let ReplyContent::Times { received_ns, sent_ns } = parsed.content else {
                panic!("{packet:?}");
            };
            assert_eq!(parsed.replies_to, 7);
            assert!((at_ns..=at_ns + 1).contains(&received_ns), "{received_ns}");
            assert!((at_ns + 4_999..=at_ns + 5_000).contains(&sent_ns), "{sent_ns}");
            // No responder answers another.
            assert_eq!(reply(&packet, at_ns), None);
        }
    }

    #[test]
    fn a_reply_is_as_long_as_its_request() {
        for length in 0..100 {
            let mut bytes = vec![0; length];
            if let Some(first) = bytes.first_mut() {
                *first = 4 << 3 | CLIENT;
            }
            assert_eq!(reply(&bytes, 1).is_some(), length == LENGTH, "{length}");
        }
    }
}
