//! What came of telling a guest.

use std::time::Duration;

use linux::clock::pair;
use pvclock::units::OffsetBound;

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
pub(crate) fn offset(read_ns: u64, from_ns: u64) -> Result<OffsetBound, TellFailure> {
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
