//! What one answer shows.

use pvclock::units::ClockPair;

use crate::wire::hosttime::frame::{FrameLeap, FrameScale, TimeAnswer};

/// The longest that request and answer may take together, ns: what takes longer
/// was held up, by a pause perhaps.
pub const LONGEST_DELAY_NS: u64 = 1_000_000_000;

/// No clock that is right shows less: 2026-11-01, ns since 1970. A guest's that
/// does was never set, and a host's has no time to give.
pub const EARLIEST_NS: u64 = 1_793_491_200_000_000_000;

/// A clock that smears a leap second is off by half of it at the most.
const SMEARED_NS: u64 = 500_000_000;

/// What the guest's clock may gain or lose while it waits: 1000 ppm.
const WANDER: u64 = 1000;

/// Why an answer is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No request has that nonce and time, or no longer: it was answered, or
    /// another answer came first.
    #[error("an answer to no request (nonce {nonce:#x})")]
    NotAsked {
        /// The nonce.
        nonce: u64,
    },
    /// No answer came in time.
    #[error("no answer within {} ms", limit_ns / 1_000_000)]
    NoAnswer {
        /// The limit, ns.
        limit_ns: u64,
    },
    /// Request and answer took too long.
    #[error("the answer took {} ms (limit {} ms)", took_ns / 1_000_000, LONGEST_DELAY_NS / 1_000_000)]
    Slow {
        /// How long, ns.
        took_ns: u64,
    },
    /// The host received the request after it sent the answer, or had it for
    /// longer than the guest waited.
    #[error("the host's times, {received_ns} and {sent_ns} ns, do not fit in {waited_ns} ns")]
    Impossible {
        /// When it received the request, ns since 1970.
        received_ns: u64,
        /// When it sent the answer.
        sent_ns: u64,
        /// How long the guest waited, ns.
        waited_ns: u64,
    },
    /// The host's clock was never set.
    #[error("the host's clock was never set: it shows {} s", shown_ns / 1_000_000_000)]
    HostUnset {
        /// What it shows, ns since 1970.
        shown_ns: u64,
    },
    /// The host does not know how far its clock may be off.
    #[error("the host does not know how far its clock is off")]
    Unbounded,
    /// The host counts TAI, and does not know how far that is from UTC.
    #[error("the host counts TAI without an offset from UTC")]
    NoTaiOffset,
    /// Two answers of one exchange contradict each other, or the guest's clock
    /// was set between them.
    #[error("two answers contradict each other by {by_ns} ns")]
    Contradiction {
        /// By how much, ns.
        by_ns: u64,
    },
    /// More than 292 years from the guest's clock.
    #[error("a time more than 292 years away")]
    OutOfRange,
    /// A guest's frame, which no host sends.
    #[error("a request, which a guest sends")]
    NotAHost,
}

impl Refused {
    /// Whether another exchange with the same host may end otherwise: this one was disturbed.
    pub(crate) fn is_disturbance(&self) -> bool {
        matches!(self, Self::Slow { .. } | Self::Contradiction { .. })
    }
}

/// UTC minus CLOCK_MONOTONIC, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredOffset {
    low_ns: i128,
    high_ns: i128,
    /// CLOCK_MONOTONIC then, ns.
    pub(crate) at_ns: u64,
}

impl MeasuredOffset {
    /// By an answer that came `now`, to a request of `sent`.
    ///
    /// The host sent the answer somewhere between the two: at the earliest, no
    /// time has passed since; at the latest, all of the wait that the host did
    /// not have the request for. A wait of 300 µs, 100 µs of it at the host:
    /// its time then, plus 0 to 200 µs, ± its own bound.
    pub(crate) fn from_answer(
        answer: &TimeAnswer,
        sent: ClockPair,
        now: ClockPair,
    ) -> Result<Self, Refused> {
        let waited_ns = now.monotonic_ns.saturating_sub(sent.monotonic_ns);
        let (received_ns, sent_ns) = (answer.received_ns, answer.sent_ns);
        let had_ns = sent_ns.checked_sub(received_ns).filter(|had_ns| *had_ns <= waited_ns);
        let had_ns = had_ns.ok_or(Refused::Impossible { received_ns, sent_ns, waited_ns })?;
        let delay_ns = waited_ns - had_ns;
        if waited_ns > LONGEST_DELAY_NS {
            return Err(Refused::Slow { took_ns: waited_ns });
        }
        if sent_ns < EARLIEST_NS {
            return Err(Refused::HostUnset { shown_ns: sent_ns });
        }
        let clock = answer.clock;
        let ahead_s = match clock.scale {
            FrameScale::Utc => 0,
            FrameScale::Tai => clock.tai_offset_s.ok_or(Refused::NoTaiOffset)?,
        };
        let is_smearing = clock.is_smeared && clock.leap != FrameLeap::None;
        let bound_ns = clock.bound_ns.ok_or(Refused::Unbounded)?;
        let bound_ns = i128::from(bound_ns)
            + i128::from(waited_ns / WANDER)
            + i128::from(if is_smearing { SMEARED_NS } else { 0 });
        let utc_ns = i128::from(sent_ns) - i128::from(ahead_s) * 1_000_000_000;
        let ahead_ns = utc_ns - i128::from(now.monotonic_ns);
        Ok(Self {
            low_ns: ahead_ns - bound_ns,
            high_ns: ahead_ns + i128::from(delay_ns) + bound_ns,
            at_ns: now.monotonic_ns,
        })
    }

    /// The narrower of this and a later one.
    pub(crate) fn or(self, later: Self) -> Result<Self, Refused> {
        let wander_ns = i128::from(later.at_ns.saturating_sub(self.at_ns) / WANDER);
        let (low_ns, high_ns) = (self.low_ns - wander_ns, self.high_ns + wander_ns);
        let gap_ns = (later.low_ns - high_ns).max(low_ns - later.high_ns);
        if gap_ns > 0 {
            let by_ns = u64::try_from(gap_ns).unwrap_or(u64::MAX);
            return Err(Refused::Contradiction { by_ns });
        }
        let width = |it: &Self| it.high_ns - it.low_ns;
        Ok(if width(&later) <= width(&self) { later } else { self })
    }

    /// Middle and half of the width, against a clock that is `ahead_ns` of
    /// CLOCK_MONOTONIC.
    pub(crate) fn offset(&self, ahead_ns: i128) -> Result<(i64, u64), Refused> {
        let middle_ns = self.low_ns.midpoint(self.high_ns);
        let offset_ns = i64::try_from(middle_ns - ahead_ns).map_err(|_| Refused::OutOfRange)?;
        let bound_ns = (self.high_ns - middle_ns).max(middle_ns - self.low_ns);
        Ok((offset_ns, u64::try_from(bound_ns).map_err(|_| Refused::OutOfRange)?))
    }
}
