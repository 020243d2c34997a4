//! How far CLOCK_REALTIME is off by a source.

/// A source's time minus CLOCK_REALTIME, with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetBound {
    /// The source minus CLOCK_REALTIME, ns: what to add to the clock.
    pub offset_ns: i64,
    /// The truth is within ± this, if the source states its own error rightly.
    pub bound_ns: u64,
    /// CLOCK_MONOTONIC when it was measured, ns.
    pub at_monotonic_ns: u64,
}
