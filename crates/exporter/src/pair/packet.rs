//! NTP's 48 bytes (RFC 5905, figure 8), as far as a pair needs them.

/// A packet's length without extensions.
pub const LENGTH: usize = 48;

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: i64 = 2_208_988_800;
const S: i128 = 1_000_000_000;

const CLIENT: u8 = 3;
const SERVER: u8 = 4;

/// Leap 3, not synchronised: this is no server of the time of day, and no NTP client
/// takes it for one.
const UNSYNCHRONISED: u8 = 3 << 6;

/// A request with this number, which cannot be guessed, in place of our time. It is for when
/// the reply to an earlier one was sent, which arrived then by the peer's clock (interleaved
/// mode, RFC 9769, section 2). A peer that tells it replies to the number `shown`, any other
/// to `number`.
pub(crate) fn request(arrival: u64, shown: u64, number: u64) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = 4 << 3 | CLIENT;
    packet[24..32].copy_from_slice(&arrival.to_be_bytes());
    packet[32..40].copy_from_slice(&shown.to_be_bytes());
    packet[40..].copy_from_slice(&number.to_be_bytes());
    packet
}

/// The 64 bits from there on.
fn field(packet: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(packet.get(at..at + 8)?.try_into().ok()?))
}

/// The number of a request or, of a reply, when it was sent.
pub(crate) fn transmit_field(packet: &[u8]) -> u64 {
    field(packet, 40).unwrap_or(0)
}

/// When the request arrived, as a reply has it.
pub(crate) fn arrival(reply: &[u8]) -> u64 {
    field(reply, 32).unwrap_or(0)
}

/// The arrival of an earlier request of which this one asks when it was replied to; none of a
/// plain one.
pub(crate) fn interleaved_arrival(request: &[u8]) -> Option<u64> {
    let arrival = field(request, 24).filter(|arrival| *arrival != 0)?;
    (field(request, 32) != field(request, 40)).then_some(arrival)
}

/// Makes a reply one that says when an earlier one was sent.
pub(crate) fn interleave(reply: &mut [u8; LENGTH], request: &[u8], earlier_ns: i64) {
    if let Some(shown) = request.get(32..40) {
        reply[24..32].copy_from_slice(shown);
        stamp_transmit(reply, earlier_ns);
    }
}

/// The reply to a request that arrived then, but for the time at which it is sent: none
/// unless it is a client's request of version 3 or 4, so that two responders never answer
/// each other. As long as a request, which has no extensions and no MAC.
pub fn reply(request: &[u8], received_ns: i64) -> Option<[u8; LENGTH]> {
    let (version, mode) = (request.first()? >> 3 & 7, request.first()? & 7);
    if request.len() != LENGTH || mode != CLIENT || !matches!(version, 3 | 4) {
        return None;
    }
    let mut packet = [0; LENGTH];
    packet[0] = UNSYNCHRONISED | version << 3 | SERVER;
    packet[2] = request[2];
    // 2^-20 s.
    packet[3] = -20_i8 as u8;
    packet[24..32].copy_from_slice(&request[40..48]);
    packet[32..40].copy_from_slice(&fixed(received_ns).to_be_bytes());
    Some(packet)
}

/// Writes the time at which it is sent into a reply.
pub(crate) fn stamp_transmit(packet: &mut [u8; LENGTH], at_ns: i64) {
    packet[40..].copy_from_slice(&fixed(at_ns).to_be_bytes());
}

/// What a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
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

impl Reply {
    /// Of the bytes that came, if they reply to the request of that number. Any NTP
    /// server's, synchronised or not. The era is the one nearest to `near_ns`.
    pub fn parse(packet: &[u8], number: u64, near_ns: i64) -> Option<Self> {
        if packet.first()? & 7 != SERVER || field(packet, 24)? != number {
            return None;
        }
        let (code, stratum) = (packet.get(12..16)?.try_into().ok()?, *packet.get(1)?);
        if stratum == 0 && matches!(&code, b"DENY" | b"RSTR" | b"RATE") {
            return Some(Self::Kiss(code));
        }
        let (received, sent) = (field(packet, 32)?, field(packet, 40)?);
        let time = |fixed| nanoseconds(fixed, near_ns);
        // A server that never had the time says 0.
        (received != 0 && sent != 0).then(|| Self::Times {
            received_ns: time(received).saturating_add(1),
            sent_ns: time(sent),
        })
    }
}

/// 32.32 seconds since 1900, of an era.
fn fixed(ns: i64) -> u64 {
    let since_1900 = i128::from(ns) + i128::from(UNIX_EPOCH_S) * S;
    // What is beyond the era goes.
    ((since_1900 << 32) / S) as u64
}

fn nanoseconds(fixed: u64, near_ns: i64) -> i64 {
    let near = (i128::from(near_ns) << 32) / S;
    let in_first_era = i128::from(fixed) - (i128::from(UNIX_EPOCH_S) << 32);
    let eras = (near - in_first_era + (1 << 63)) >> 64;
    (((in_first_era + (eras << 64)) * S) >> 32) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_when_to_a_nanosecond_in_any_era() {
        for at_ns in
            [1_700_000_000_123_456_789, 2_085_978_495_999_999_999, 2_085_978_497_000_000_001]
        {
            let mut packet = reply(&request(0, 0, 7), at_ns).unwrap();
            stamp_transmit(&mut packet, at_ns + 5_000);
            let near_ns = at_ns - 40 * 365 * 86_400 * 1_000_000_000;
            let Some(Reply::Times { received_ns, sent_ns }) = Reply::parse(&packet, 7, near_ns)
            else {
                panic!("{packet:?}");
            };
            assert!((at_ns..=at_ns + 1).contains(&received_ns), "{received_ns}");
            assert!((at_ns + 4_999..=at_ns + 5_000).contains(&sent_ns), "{sent_ns}");
            assert_eq!(Reply::parse(&packet, 8, near_ns), None);
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
