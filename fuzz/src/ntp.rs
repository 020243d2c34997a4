//! Answers of NTP servers.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::Duration;

use platform::reference::ntp::{NtpServer, Wire};

/// Where a request carries its number, and an answer repeats it.
const SENT: Range<usize> = 40..48;
const REPEATED: Range<usize> = 24..32;

/// A server that answers with these bytes, once as they are and once as if to
/// our request.
struct Answers<'a> {
    data: &'a [u8],
    request: RefCell<Vec<u8>>,
    given: RefCell<u32>,
}

impl Wire for Answers<'_> {
    fn send(&self, packet: &[u8]) -> Result<usize> {
        self.request.replace(packet.to_vec());
        Ok(packet.len())
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        let given = self.given.replace_with(|given| *given + 1);
        if given > 1 {
            return Err(Error::from(ErrorKind::TimedOut));
        }
        let mut answer = self.data.to_vec();
        if let (1, Some(repeated)) = (given, answer.get_mut(REPEATED)) {
            repeated.copy_from_slice(&self.request.borrow()[SENT]);
        }
        let length = answer.len().min(buffer.len());
        buffer[..length].copy_from_slice(&answer[..length]);
        Ok(length)
    }
}

/// An answer of any bytes is refused, or in order.
pub(crate) fn ntp_answer(data: &[u8]) {
    let server = NtpServer::find("127.0.0.1:123", Duration::from_secs(1)).expect("an address");
    let answers = Answers { data, request: RefCell::default(), given: RefCell::default() };
    if let Ok(exchange) = server.ask_over(&answers, || ()) {
        assert!(exchange.received_ns <= exchange.answered_ns);
        assert!((1..16).contains(&exchange.stratum) && exchange.leap < 3, "{exchange:?}");
    }
}
