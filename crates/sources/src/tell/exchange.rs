//! Exchanges: a notice, and an answer to each request.

use std::time::Duration;

use crate::wire::hosttime::{HostTimeFrame, Incoming, RETRIES, ROUNDS, Reason, TimeAnswer};
use linux::clock::pair;
use pvclock::units::OffsetBound;

use crate::tell::connection::GuestConnection;
use crate::tell::host::HostState;
use crate::tell::told::{TellFailure, TellOutcome, offset};

/// A guest that has an answer asks again at once or never, and after a disturbed exchange with
/// its next sample: `keep` takes one every 500 ms.
const QUIET: Duration = Duration::from_secs(1);

/// What a guest asks at most after a notice: one that asks for ever is left.
const MOST_ROUNDS: u32 = (1 + RETRIES) * ROUNDS;

/// Answers the requests of one guest.
pub(crate) fn answer(
    connection: &mut GuestConnection,
    host: HostState,
    reason: Reason,
) -> Result<TellOutcome, TellFailure> {
    let mut told: Option<TellOutcome> = None;
    let mut spoken_ns = realtime_ns()?;
    connection.send(&HostTimeFrame::Notice(reason).encode())?;
    for answers in 1..=MOST_ROUNDS {
        let (request, received_ns, seen) = match request(connection, spoken_ns) {
            Ok(request) => request,
            // It has what it wanted.
            Err(_) if told.is_some() => break,
            Err(why) => return Err(why),
        };
        let before = told.map_or(seen, |told| narrower(told.before, seen));
        told = Some(TellOutcome { before, after: None, answers });
        spoken_ns = realtime_ns()?;
        let answer = TimeAnswer::new(request, reason, (received_ns, spoken_ns), host.0);
        connection.send(&HostTimeFrame::Answer(answer).encode())?;
        if answers == ROUNDS {
            connection.hurry(QUIET);
        }
    }
    told.ok_or_else(|| TellFailure::Nonsense("no request".to_owned()))
}

/// The next request, when it came, and how far the guest's clock is from ours: it was
/// sent after `spoken_ns`, and before it was received.
fn request(
    connection: &mut GuestConnection,
    spoken_ns: u64,
) -> Result<((u64, u64), u64, OffsetBound), TellFailure> {
    let mut incoming = Incoming::default();
    let frame = loop {
        let length = connection.receive(incoming.space(), "request from the guest")?;
        match incoming.filled(length) {
            Ok(None) => {}
            Ok(Some(frame)) => break frame,
            Err(why) => return Err(TellFailure::Nonsense(why.to_string())),
        }
    };
    let received_ns = realtime_ns()?;
    match frame {
        HostTimeFrame::Request { nonce, sent_ns } => {
            Ok(((nonce, sent_ns), received_ns, offset(sent_ns, spoken_ns)?))
        }
        _ => Err(TellFailure::Nonsense("the guest sent a host's message".to_owned())),
    }
}

fn narrower(one: OffsetBound, other: OffsetBound) -> OffsetBound {
    if other.bound_ns < one.bound_ns { other } else { one }
}

fn realtime_ns() -> Result<u64, TellFailure> {
    Ok(pair().map_err(TellFailure::Broken)?.realtime_ns)
}
