//! Lengths and rates by which causes are distinguished.

/// Twice what two bracketed reads may differ by: 125 µs each
/// (kernel/time/clocksource.c, WATCHDOG_MAX_SKEW), at both ends.
pub(super) const BRACKETED_LATE_NS: f64 = 1e6;

/// The watchdog's interval, ns.
pub(super) const USUAL_NS: f64 = 0.5e9;

/// Twice the watchdog's interval when it is on time, 0.5 s.
pub(super) const LATE_NS: f64 = 1e9;

/// Usual rates of the TSCs of x86-64 CPUs, Hz: what an estimate may give.
pub(super) const PLAUSIBLE_HZ: std::ops::RangeInclusive<f64> = 1.5e9..=5e9;
