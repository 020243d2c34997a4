//! Replies of NTP servers.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::Duration;

use sources::ntp::{NtpPeer, Wire};

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
