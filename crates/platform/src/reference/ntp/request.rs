//! A request under way, and several at once.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;

use sntpc::{NtpContext, NtpTimestampGenerator, SendRequestResult};

use super::wire::{self, Stamped, Udp, Wire};
use super::{Exchange, NtpError, NtpServer};
use crate::clock::Clock;

/// So many packets are read in a row that are no answer: others wait to be
/// read, and their clocks with them.
const PACKETS_IN_A_ROW: u32 = 4;

/// What was sent to a server, and may be answered.
pub(super) struct Request<'s, W: Wire, S, F: Fn() -> S> {
    server: &'s NtpServer,
    way: Stamped<W, S, F>,
    context: NtpContext<Nonce>,
    sent: SendRequestResult,
    /// What came and is no answer at all; the right one may follow.
    wrong: Option<sntpc::Error>,
}

impl<'s, W: Wire, S, F: Fn() -> S> Request<'s, W, S, F> {
    /// Sends it.
    ///
    /// # Errors
    /// It cannot be sent.
    pub(super) fn send(server: &'s NtpServer, wire: W, stamp: F) -> Result<Self, NtpError> {
        let way = Stamped::new(wire, server.address, stamp);
        let context = NtpContext::new(Nonce::default());
        match sntpc::sync::sntp_send_request(server.address, &way, context) {
            Ok(sent) => Ok(Self { server, way, context, sent, wrong: None }),
            Err(error) => Err(server.failed(way.take_error(), error)),
        }
    }

    /// The answer, or why there is none; nothing while one may still come, or
    /// lie behind others.
    pub(super) fn answer(&mut self) -> Option<Result<Exchange<S>, NtpError>> {
        let Self { server, way, context, sent, wrong } = self;
        for _ in 0..PACKETS_IN_A_ROW {
            let answer = sntpc::sync::sntp_process_response(server.address, way, *context, *sent);
            let error = match answer {
                Ok(result) => return Some(server.exchange(way.take_seen(), &result)),
                // Not an answer to this request: the right one may follow.
                Err(sntpc::Error::IncorrectOriginTimestamp) => continue,
                Err(error @ sntpc::Error::IncorrectPayload) => {
                    *wrong = Some(error);
                    continue;
                }
                Err(error) => error,
            };
            let way_error = way.take_error();
            let may_come = |error: &std::io::Error| {
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            };
            let is_open = way_error.as_ref().is_some_and(may_come);
            return (!is_open).then(|| Err(server.failed(way_error, error)));
        }
        None
    }

    /// Why there is no answer, where none came in time.
    pub(super) fn given_up(&self) -> NtpError {
        match self.wrong {
            Some(error) => self.server.failed(None, error),
            None => self.server.io(&ErrorKind::TimedOut.into()),
        }
    }
}

/// One of several requests.
enum Asked<'s, S, F: Fn() -> S> {
    Open(Request<'s, Udp, S, F>),
    Over(Result<Exchange<S>, NtpError>),
}

/// Asks all of them at once, and waits for each as long as its patience; the
/// answers in the same order.
pub(super) fn ask_all<'s, S>(
    servers: &[&'s NtpServer],
    stamp: impl Fn() -> S,
) -> Vec<Result<Exchange<S>, NtpError>> {
    let ask = |server: &'s NtpServer| {
        // A socket of its own for each request: what comes late for the last
        // one comes to a port that is closed.
        let wire = Udp::to(server.address, server.patience);
        wire.map_err(|error| server.unreachable(&error))
            .and_then(|wire| Request::send(server, wire, &stamp))
            .map_or_else(|error| Asked::Over(Err(error)), Asked::Open)
    };
    let mut asked: Vec<_> = servers.iter().copied().map(ask).collect();
    loop {
        asked.iter_mut().for_each(Asked::look);
        let open: Vec<&Udp> = asked.iter().filter_map(Asked::way).collect();
        if open.is_empty() {
            return asked.into_iter().map(Asked::result).collect();
        }
        wire::wait(&open);
    }
}

impl<S, F: Fn() -> S> Asked<'_, S, F> {
    fn look(&mut self) {
        let Self::Open(request) = self else { return };
        // Asked before the look: what has come by then is still read, and what
        // floods in is not read for ever.
        let is_last = request.way.wire().is_over();
        let result = request.answer();
        if let Some(result) = result.or_else(|| is_last.then(|| Err(request.given_up()))) {
            *self = Self::Over(result);
        }
    }

    fn way(&self) -> Option<&Udp> {
        match self {
            Self::Open(request) => Some(request.way.wire()),
            Self::Over(_) => None,
        }
    }

    fn result(self) -> Result<Exchange<S>, NtpError> {
        match self {
            Self::Open(request) => Err(request.given_up()),
            Self::Over(result) => result,
        }
    }
}

/// The time that a request carries and an answer must repeat: the right
/// second, for the era; the rest at random, so that it cannot be guessed.
#[derive(Debug, Clone, Copy, Default)]
struct Nonce {
    seconds: u64,
    micros: u32,
}

impl NtpTimestampGenerator for Nonce {
    fn init(&mut self) {
        self.seconds = Clock::Realtime.read_ns().unwrap_or_default() / 1_000_000_000;
        self.micros = (RandomState::new().build_hasher().finish() % 1_000_000) as u32;
    }

    fn timestamp_sec(&self) -> u64 {
        self.seconds
    }

    fn timestamp_subsec_micros(&self) -> u32 {
        self.micros
    }
}
