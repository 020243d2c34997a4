//! A request that awaits its reply, and several at once.

use std::io::ErrorKind;

use crate::wire::ntp::{LENGTH, Packet, Timestamp};
use linux::clock::LinuxClock;

use super::error::NtpError;
use super::server::{NtpPeer, ServerReply};
use super::transport::{self, Udp, Wire};

/// So many packets in a row are read that are no reply: other sockets wait to
/// be read, and their stamps with them.
const PACKETS_IN_A_ROW: u32 = 4;

/// What was sent to a server and may get a reply.
pub(super) struct NtpRequest<'s, W: Wire, S, F: Fn() -> S> {
    server: &'s NtpPeer,
    wire: W,
    stamp: F,
    number: Timestamp,
    /// The clocks before it was sent, until its reply is there.
    sent: Option<S>,
    /// A packet came that is too short; the right one may follow.
    was_short: bool,
}

impl<'s, W: Wire, S, F: Fn() -> S> NtpRequest<'s, W, S, F> {
    /// Sends it, stamped as late as can be.
    ///
    /// # Errors
    /// It cannot be sent.
    pub(super) fn send(server: &'s NtpPeer, wire: W, stamp: F) -> Result<Self, NtpError> {
        let packet = Packet::request(transport::number().map_err(|error| server.io(&error))?);
        let bytes = packet.encode();
        let sent = stamp();
        wire.send(&bytes).map_err(|error| server.io(&error))?;
        let number = packet.transmit;
        Ok(Self { server, wire, stamp, number, sent: Some(sent), was_short: false })
    }

    /// The reply, or why there is none; nothing while one may still come, or
    /// wait behind other packets.
    pub(super) fn reply(&mut self) -> Option<Result<ServerReply<S>, NtpError>> {
        let mut buffer = [0; LENGTH];
        for _ in 0..PACKETS_IN_A_ROW {
            let length = match self.wire.receive(&mut buffer) {
                Ok(length) => length,
                Err(error) => {
                    let is_open =
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    return (!is_open).then(|| Err(self.server.io(&error)));
                }
            };
            let arrived = (self.stamp)();
            let Some(packet) = buffer.get(..length).and_then(Packet::decode) else {
                self.was_short = true;
                continue;
            };
            // Not a reply to this request: the right one may follow.
            if packet.origin != self.number {
                continue;
            }
            let sent = self.sent.take()?;
            let near_ns = LinuxClock::Realtime.read_ns().unwrap_or_default();
            return Some(self.server.reply(&packet, (sent, arrived), near_ns));
        }
        None
    }

    /// Why there is no reply, where none came in time.
    pub(super) fn timed_out(&self) -> NtpError {
        if self.was_short {
            return self.server.invalid(&format!("shorter than {LENGTH} bytes"));
        }
        self.server.io(&ErrorKind::TimedOut.into())
    }
}

impl NtpPeer {
    /// Queries it once; `stamp` reads the caller's clocks.
    ///
    /// # Errors
    /// There is no usable reply.
    pub fn query<S>(&self, stamp: impl Fn() -> S) -> Result<ServerReply<S>, NtpError> {
        let reply = Self::query_all(&[self], stamp).pop();
        reply.unwrap_or_else(|| Err(self.invalid("no request was sent")))
    }

    /// Queries each once, all at the same time: one that does not reply does
    /// not delay the others. Replies in the order of the servers.
    pub fn query_all<'s, S>(
        servers: &[&'s Self],
        stamp: impl Fn() -> S,
    ) -> Vec<Result<ServerReply<S>, NtpError>> {
        let send = |server: &'s Self| {
            // A socket of its own for each request: a late reply to the previous
            // one comes to a port that is closed.
            let wire = Udp::connect(server.address(), server.timeout());
            wire.map_err(|error| NtpError::Unreachable {
                name: server.name().to_owned(),
                error: error.to_string(),
            })
            .and_then(|wire| NtpRequest::send(server, wire, &stamp))
            .map_or_else(|error| Query::Done(Err(error)), Query::Open)
        };
        let mut queries: Vec<_> = servers.iter().copied().map(send).collect();
        loop {
            queries.iter_mut().for_each(Query::poll);
            let open: Vec<&Udp> = queries.iter().filter_map(Query::socket).collect();
            if open.is_empty() {
                return queries.into_iter().map(Query::result).collect();
            }
            transport::wait(&open);
        }
    }

    /// Queries it once over a transport of the caller's.
    ///
    /// # Errors
    /// There is no usable reply.
    pub fn query_over<S>(
        &self,
        wire: &impl Wire,
        stamp: impl Fn() -> S,
    ) -> Result<ServerReply<S>, NtpError> {
        let mut request = NtpRequest::send(self, wire, stamp)?;
        request.reply().unwrap_or_else(|| Err(request.timed_out()))
    }
}

/// One of several requests.
enum Query<'s, S, F: Fn() -> S> {
    Open(NtpRequest<'s, Udp, S, F>),
    Done(Result<ServerReply<S>, NtpError>),
}

impl<S, F: Fn() -> S> Query<'_, S, F> {
    fn poll(&mut self) {
        let Self::Open(request) = self else { return };
        // Read before the packets are: what has come by then is still taken,
        // and a flood is not read for ever.
        let is_last = request.wire.is_over();
        let result = request.reply();
        if let Some(result) = result.or_else(|| is_last.then(|| Err(request.timed_out()))) {
            *self = Self::Done(result);
        }
    }

    fn socket(&self) -> Option<&Udp> {
        match self {
            Self::Open(request) => Some(&request.wire),
            Self::Done(_) => None,
        }
    }

    fn result(self) -> Result<ServerReply<S>, NtpError> {
        match self {
            Self::Open(request) => Err(request.timed_out()),
            Self::Done(result) => result,
        }
    }
}
