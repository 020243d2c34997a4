//! Replies of chronyd and of NTP servers.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::Duration;

use sources::ntp::{NtpPeer, Wire};
use sources::wire::chronyd::{ChronydRequest, MAX_REPLY_BYTES, ReplyError};

/// A reply of chronyd's to the request whose number it carries, and to
/// another: parsed as the layout has it, or refused.
pub(crate) fn chronyd(data: &[u8]) {
    let sequence =
        data.get(16..20).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    match sources::wire::chronyd::tracking(data, sequence) {
        Ok(tracking) => {
            assert_eq!(data.len(), MAX_REPLY_BYTES);
            let bound = tracking.error_bound();
            assert!(bound.growth_ppb >= 1_000);
            assert!(bound.error_ns.is_none() || data[54..56] != [0, 3]);
            assert!(tracking.system_offset.value().is_finite());
            let other = sources::wire::chronyd::tracking(data, !sequence);
            assert_eq!(other, Err(ReplyError::Sequence(sequence)));
        }
        Err(ReplyError::Length { found, .. }) => assert_eq!(found, data.len()),
        Err(ReplyError::Sequence(other)) => panic!("{other} is not {sequence}"),
        Err(_) => {}
    }
    let burst = ChronydRequest::Burst { good: 3, max: 5 };
    for request in [ChronydRequest::MakeStep, ChronydRequest::ResetSources, burst] {
        if sources::wire::chronyd::acknowledgement(data, request, sequence).is_ok() {
            // Of one command only, and not also data.
            assert_eq!(data[5], request.encode(sequence)[5]);
            assert!(sources::wire::chronyd::tracking(data, sequence).is_err());
        }
    }
}

/// Where a request has its number, and a reply repeats it.
const SENT: Range<usize> = 40..48;
const REPEATED: Range<usize> = 24..32;

/// A server that replies with these bytes, once as they are and once as if to
/// our request.
struct Replies<'a> {
    data: &'a [u8],
    request: RefCell<Vec<u8>>,
    sent: RefCell<u32>,
}

impl Wire for Replies<'_> {
    fn send(&self, packet: &[u8]) -> Result<usize> {
        self.request.replace(packet.to_vec());
        Ok(packet.len())
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        let sent = self.sent.replace_with(|sent| *sent + 1);
        if sent > 1 {
            return Err(Error::from(ErrorKind::TimedOut));
        }
        let mut reply = self.data.to_vec();
        if let (1, Some(repeated)) = (sent, reply.get_mut(REPEATED)) {
            repeated.copy_from_slice(&self.request.borrow()[SENT]);
        }
        let length = reply.len().min(buffer.len());
        buffer[..length].copy_from_slice(&reply[..length]);
        Ok(length)
    }
}

/// A reply of any bytes is refused, or in order.
pub(crate) fn ntp_answer(data: &[u8]) {
    let server = NtpPeer::find("127.0.0.1:123", Duration::from_secs(1)).expect("an address");
    let replies = Replies { data, request: RefCell::default(), sent: RefCell::default() };
    if let Ok(reply) = server.query_over(&replies, || ()) {
        assert!(reply.reading.shown_ns.0 <= reply.reading.shown_ns.1);
        assert!((1..16).contains(&reply.state.stratum) && reply.state.leap < 3, "{reply:?}");
    }
}
