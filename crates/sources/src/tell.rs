//! The host's side of time messages: sends a guest the time over AF_VSOCK, over the Unix socket
//! of Firecracker and cloud-hypervisor, over a virtio-serial port, or, to a guest without
//! Parachron, over qemu-guest-agent's protocol.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use sources::tell::{self, Address, HostState};
//! use sources::wire::hosttime::Reason;
//!
//! let guest: Address = "vsock:3".parse()?;
//! let host = HostState::read(None)?;
//! let told = tell::tell(&guest, host, Reason::Restored, Duration::from_secs(2))?;
//! println!("it was off by {} ns ± {} ns", told.before.offset_ns, told.before.bound_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guest decides whether to trust its host. A host that does not know its own clock's error
//! sends nothing.

#![forbid(unsafe_code)]

mod address;
mod agent;
mod connection;
mod host;

use std::time::Duration;

use linux::clock::pair;
use pvclock::units::OffsetBound;

use crate::tell::connection::GuestConnection;
use crate::wire::hosttime::{HostTimeFrame, Incoming, RETRIES, ROUNDS, Reason, TimeAnswer};

pub use address::{Address, NotAnAddress};
pub use agent::MAX_REPLY_BYTES;
pub use host::{HostState, Unusable};

/// Tells one guest, within `limit`, and a day at the most.
///
/// # Errors
/// Why it was not told.
pub fn tell(
    guest: &Address,
    host: HostState,
    reason: Reason,
    limit: Duration,
) -> Result<TellOutcome, TellFailure> {
    let mut connection = GuestConnection::open(guest, limit)?;
    match guest {
        Address::Agent(_) => agent::set_time(&mut connection, host),
        _ => answer_exchange(&mut connection, host, reason),
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TellOutcome {
    /// The guest's clock minus the host's when it was first heard of, and how
    /// far from that it may be; the host's own error is not in it.
    pub before: OffsetBound,
    /// The same at the end, where the guest was asked again.
    pub after: Option<OffsetBound>,
    /// How many answers it got, or how often it was set: 0 where it may be right.
    pub answers: u32,
}

/// Why a guest was not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TellFailure {
    /// There is no way to it: it may not run yet.
    #[error("cannot connect: {0}")]
    Unreachable(std::io::Error),
    /// The way broke.
    #[error("the connection ended: {0}")]
    Broken(std::io::Error),
    /// Nothing came.
    #[error("no {what} within {:.1} s", limit.as_secs_f64())]
    Silent {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
    /// What came means nothing.
    #[error("{0}")]
    Nonsense(String),
    /// The guest's agent refused.
    #[error("the agent refused: {0}")]
    Refused(String),
}

/// A clock's reading minus the middle of two of ours around it, and half of
/// the time between: CLOCK_REALTIME, `from_ns` to now.
fn offset(read_ns: u64, from_ns: u64) -> Result<OffsetBound, TellFailure> {
    let now = pair().map_err(TellFailure::Broken)?;
    let width_ns = now.realtime_ns.saturating_sub(from_ns);
    let middle_ns = from_ns + width_ns / 2;
    let apart_ns = i128::from(read_ns) - i128::from(middle_ns);
    Ok(OffsetBound {
        offset_ns: i64::try_from(apart_ns).map_err(|_| {
            TellFailure::Nonsense(format!("the guest's clock shows {read_ns} ns since 1970"))
        })?,
        bound_ns: width_ns.div_ceil(2),
        at_monotonic_ns: now.monotonic_ns,
    })
}

/// A guest that has an answer asks again at once or never, and after a disturbed exchange with
/// its next sample: `keep` takes one every 500 ms.
const QUIET: Duration = Duration::from_secs(1);

/// What a guest asks at most after a notice: one that asks for ever is left.
const MOST_ROUNDS: u32 = (1 + RETRIES) * ROUNDS;

/// Answers the requests of one guest.
fn answer_exchange(
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
