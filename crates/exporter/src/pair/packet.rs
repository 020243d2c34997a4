//! NTP's packet as the nodes of a pair use it: plain, and in interleaved mode (RFC 9769, section
//! 2), in which a reply contains when the one before it was sent.

pub use wire::ntp::LENGTH;
use wire::ntp::{CLIENT, Packet, SERVER, Timestamp, UNSYNCHRONISED};

/// A request with this number, which cannot be guessed. It asks when the reply to an earlier one
/// was sent, which arrived at `arrival` by the peer's clock. A peer that knows replies to the
/// number `shown`, any other to `number`.
pub(crate) fn request(arrival: u64, shown: u64, number: u64) -> [u8; LENGTH] {
    let (origin, receive) = (Timestamp(arrival), Timestamp(shown));
    Packet { origin, receive, ..Packet::request(number) }.encode()
}

/// The number of a request or, of a reply, when it was sent.
pub(crate) fn transmit_field(packet: &[u8]) -> u64 {
    Packet::decode(packet).unwrap_or_default().transmit.0
}

/// When the request arrived, as a reply has it.
pub(crate) fn arrival(reply: &[u8]) -> u64 {
    Packet::decode(reply).unwrap_or_default().receive.0
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

/// What a reply contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerReply {
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
    /// Of the bytes that came, if they reply to the request of that number. Any NTP
    /// server's, synchronised or not. The era is the one nearest to `near_ns`.
    pub fn parse(packet: &[u8], number: u64, near_ns: i64) -> Option<Self> {
        let packet = Packet::decode(packet)?;
        if packet.mode != SERVER || packet.origin.0 != number {
            return None;
        }
        if let Some(code) = packet.kiss().filter(|code| matches!(code, b"DENY" | b"RSTR" | b"RATE"))
        {
            return Some(Self::Kiss(code));
        }
        let time = |stamp: Timestamp| stamp.unix_ns(near_ns.into()) as i64;
        // A server that never had the time sends 0.
        let has_times = !packet.receive.is_none() && !packet.transmit.is_none();
        has_times.then(|| Self::Times {
            received_ns: time(packet.receive).saturating_add(1),
            sent_ns: time(packet.transmit),
        })
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
            let asked = parse_request(&request(0, 0, 7)).unwrap();
            let packet = plain_reply(&asked, at_ns, at_ns + 5_000).encode();
            let near_ns = at_ns - 40 * 365 * 86_400 * 1_000_000_000;
            let Some(PeerReply::Times { received_ns, sent_ns }) =
                PeerReply::parse(&packet, 7, near_ns)
            else {
                panic!("{packet:?}");
            };
            assert!((at_ns..=at_ns + 1).contains(&received_ns), "{received_ns}");
            assert!((at_ns + 4_999..=at_ns + 5_000).contains(&sent_ns), "{sent_ns}");
            assert_eq!(PeerReply::parse(&packet, 8, near_ns), None);
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
