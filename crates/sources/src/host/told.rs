//! What the host has told, until it is asked for.

use crate::wire::hosttime::{GuestExchange, Heard, HostTimeFrame, Reason, Refused};
use pvclock::units::{ClockPair, OffsetBound};

use super::message::MalformedMessage;

/// Reports of what was rejected come at most this often, ns: anybody may
/// connect.
const REPORT_NS: u64 = 1_000_000_000;

/// Why something that came is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Its sender may not send the time.
    #[error("from user {uid}, who is neither root nor user {ours}")]
    Sender {
        /// Who sent it.
        uid: u32,
        /// Who may send it besides root.
        ours: u32,
    },
    /// It connected from somewhere that is not the host.
    #[error("from CID {cid}; the host is CID 2")]
    Peer {
        /// From where.
        cid: u32,
    },
    /// A request cannot be sent to it: its socket is not bound.
    #[error("a notice from a socket without an address, to which no request can be sent")]
    NoAddress,
    /// It is no message.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// It is no frame.
    #[error(transparent)]
    Frame(#[from] crate::wire::hosttime::Malformed),
    /// The exchange did not give the time.
    #[error(transparent)]
    Exchange(#[from] Refused),
    /// The channel takes no request: what the system said.
    #[error("cannot ask the host: {why}")]
    NotAsked {
        /// That.
        why: String,
    },
    /// It waited too long, or the clock was set meanwhile.
    #[error("{}", stale(*age_ns))]
    Stale {
        /// Its age by CLOCK_REALTIME.
        age_ns: i128,
    },
    /// Its time is out of range.
    #[error("{0}")]
    OutOfRange(String),
}

fn stale(age_ns: i128) -> String {
    let age_s = age_ns as f64 / 1e9;
    match age_ns {
        0.. => format!("message is {age_s:.1} s old (limit 1 s): send it again"),
        _ => format!(
            "message is stamped {:.1} s in the future: the clock was set meanwhile; send it again",
            -age_s
        ),
    }
}

/// What was told.
#[derive(Debug, Default)]
pub(super) struct ReportedTime {
    /// Not used yet.
    pub(super) offset: Option<OffsetBound>,
    /// CLOCK_MONOTONIC of the last one, ns.
    pub(super) last_ns: Option<u64>,
    pub(super) resumed: bool,
    rejected: Option<Rejected>,
    /// When one was reported last, CLOCK_MONOTONIC, ns.
    reported_ns: Option<u64>,
}

impl ReportedTime {
    pub(super) fn offset(&mut self, offset: OffsetBound) {
        (self.offset, self.last_ns) = (Some(offset), Some(offset.at_monotonic_ns));
    }

    pub(super) fn reject(&mut self, why: impl Into<Rejected>) {
        self.rejected = Some(why.into());
    }

    /// The last that was rejected, once a second.
    pub(super) fn take_rejected(&mut self, now_ns: u64) -> Option<Rejected> {
        let is_early =
            self.reported_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) < REPORT_NS);
        if is_early {
            return None;
        }
        let rejected = self.rejected.take()?;
        self.reported_ns = Some(now_ns);
        Some(rejected)
    }

    /// A frame came at `now`; whether it was of use.
    pub(super) fn hear(
        &mut self,
        guest: &mut GuestExchange,
        frame: &HostTimeFrame,
        now: ClockPair,
    ) -> bool {
        match guest.receive(frame, now) {
            Ok(Heard::Notice(reason)) => {
                self.resumed |=
                    matches!(reason, Reason::Resumed | Reason::Restored | Reason::Migrated);
            }
            Ok(Heard::Offset(offset)) => self.offset(offset),
            Ok(_) => {}
            Err(why) => {
                self.reject(why);
                return false;
            }
        }
        true
    }
}

/// The request that is due, if one is: read the clocks right before it is sent.
pub(super) fn request(
    guest: &mut GuestExchange,
    now: ClockPair,
    told: &mut ReportedTime,
) -> Option<HostTimeFrame> {
    // Without randomness no nonce, and without a nonce no request.
    let mut random = [0; 8];
    let is_random = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK);
    if is_random != Ok(random.len()) {
        return None;
    }
    guest.next(now, || u64::from_ne_bytes(random)).unwrap_or_else(|why| {
        told.reject(why);
        None
    })
}
