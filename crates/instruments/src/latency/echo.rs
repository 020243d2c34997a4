//! Messages that a peer sends back, and which answer is whose.
//!
//! Each request carries a number that nobody else knows (ours for the run, plus
//! the request's), so that an answer that comes late counts as late, and one
//! that is nobody's as foreign.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the peer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// ICMP echo, by a datagram socket.
    Icmp,
    /// UDP echo (RFC 862), or whatever sends back what it gets.
    Udp,
    /// An NTP server's answer (RFC 5905).
    Ntp,
}

/// What became of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoReplies {
    /// The peer, as it was named.
    pub peer: String,
    /// Requests sent.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Answered after the next request had been sent, or twice.
    pub late: u64,
    /// Answers to nothing that was asked.
    pub foreign: u64,
}

/// ICMP's header (RFC 792, RFC 4443).
const ICMP_HEADER: usize = 8;
/// Echo request and reply, IPv4.
const ICMP: [u8; 2] = [8, 0];
/// Echo request and reply, IPv6.
const ICMP6: [u8; 2] = [128, 129];
/// NTP's header, without extension fields.
const NTP_LENGTH: usize = 48;

/// The request of this number; `secret` is the run's.
pub fn request(protocol: Protocol, ipv6: bool, secret: u64, number: u64) -> Vec<u8> {
    let token = secret.wrapping_add(number).to_be_bytes();
    match protocol {
        Protocol::Udp => token.to_vec(),
        Protocol::Icmp => {
            let [kind, _] = if ipv6 { ICMP6 } else { ICMP };
            // The kernel fills in checksum and identifier (net/ipv4/ping.c).
            let [high, low] = (number as u16).to_be_bytes();
            [&[kind, 0, 0, 0, 0, 0, high, low][..], &token].concat()
        }
        Protocol::Ntp => {
            let mut packet = vec![0; NTP_LENGTH];
            // Version 4, mode 3 (client); the server returns the transmit
            // timestamp as the origin's (RFC 5905, section 7.3).
            packet[0] = 4 << 3 | 3;
            packet[40..].copy_from_slice(&token);
            packet
        }
    }
}

/// Which request this answers; `None` where it answers none.
pub fn answered(protocol: Protocol, ipv6: bool, secret: u64, answer: &[u8]) -> Option<u64> {
    let token = match protocol {
        Protocol::Udp => answer,
        Protocol::Icmp => {
            let [_, kind] = if ipv6 { ICMP6 } else { ICMP };
            answer.strip_prefix(&[kind]).and_then(|rest| rest.get(ICMP_HEADER - 1..))?
        }
        Protocol::Ntp => {
            let mode = answer.first()? & 7;
            answer.get(24..32).filter(|_| mode == 4 && answer.len() >= NTP_LENGTH)?
        }
    };
    Some(u64::from_be_bytes(token.try_into().ok()?).wrapping_sub(secret))
}

impl EchoReplies {
    /// Counts an answer while request `number` (from 0) waits for its own;
    /// whether this is it.
    pub fn count(&mut self, number: u64, answers: Option<u64>) -> bool {
        match answers {
            Some(answered) if answered == number => {
                self.answered += 1;
                return true;
            }
            Some(earlier) if earlier < number => self.late += 1,
            _ => self.foreign += 1,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: u64 = u64::MAX - 3;

    /// What an honest peer sends back.
    fn answer(protocol: Protocol, ipv6: bool, request: &[u8]) -> Vec<u8> {
        let mut answer = request.to_vec();
        match protocol {
            Protocol::Udp => {}
            Protocol::Icmp => answer[0] = if ipv6 { 129 } else { 0 },
            Protocol::Ntp => {
                answer[0] = 4 << 3 | 4;
                answer.copy_within(40..48, 24);
            }
        }
        answer
    }

    #[test]
    fn an_answer_is_its_requests_and_no_other() {
        for protocol in [Protocol::Udp, Protocol::Icmp, Protocol::Ntp] {
            for ipv6 in [false, true] {
                for number in [0, 1, 70_000] {
                    let request = request(protocol, ipv6, SECRET, number);
                    let answer = answer(protocol, ipv6, &request);
                    let read = |secret| answered(protocol, ipv6, secret, &answer);
                    assert_eq!(read(SECRET), Some(number), "{protocol:?}");
                    assert_ne!(read(1), Some(number));
                    // Our own request, reflected by ICMP or NTP, is no answer.
                    let reflected = answered(protocol, ipv6, SECRET, &request);
                    assert_eq!(reflected.is_some(), protocol == Protocol::Udp);
                }
            }
        }
    }

    #[test]
    fn late_and_foreign_answers_are_counted_and_not_timed() {
        let mut answers = EchoReplies::default();
        let timed = [Some(6), Some(9), None, Some(7)].map(|answer| answers.count(7, answer));
        assert_eq!(timed, [false, false, false, true]);
        assert_eq!((answers.answered, answers.late, answers.foreign), (1, 1, 2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(answer in prop::collection::vec(any::<u8>(), 0..80), ipv6: bool) {
            for protocol in [Protocol::Udp, Protocol::Icmp, Protocol::Ntp] {
                let _ = answered(protocol, ipv6, SECRET, &answer);
            }
        }
    }
}
