//! Where the right time comes from.

use instruments::steps::Interval;
use schemars::JsonSchema;
use serde::Serialize;

/// The kinds of sources, the best first.
///
/// The host's own clocks stand first: read in this machine, within
/// microseconds, and right again at the moment the machine goes on. Where they
/// and others cannot be right together, see [`crate::Keeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The host's VMClock page, while it says that it is synchronised.
    VmClock,
    /// A PTP hardware clock; with `ptp_kvm` the host's clock by pairing.
    Phc,
    /// A time that the host told over a socket.
    HostValue,
    /// An NTP server.
    Ntp,
    /// The battery-backed clock, which a virtual machine's host emulates.
    Rtc,
}

impl SourceKind {
    /// Whether it is read in this machine, so that asking it at each look
    /// costs nobody anything.
    pub fn is_local(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::Rtc)
    }

    /// Whether it tells by itself, and cannot be asked.
    pub fn is_told(self) -> bool {
        self == Self::HostValue
    }

    /// Whether one reading is enough to step by: the host's clock, with no
    /// network between in which a packet can be late, old or forged.
    pub(crate) fn needs_no_second(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::HostValue)
    }
}

/// What a source said once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The source minus this machine's time of day, ns: positive where this
    /// machine is behind.
    pub offset_ns: i64,
    /// How far the truth may be from that, by the way it was measured and by
    /// the source's own word, ns.
    pub bound_ns: u64,
    /// When, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// How much the offset may change by itself: a slew of 500 ppm, and a clock
/// as bad as the kernel can steer, another 500 ppm.
const WANDER_PPM: u64 = 1000;

impl Reading {
    /// How far the truth may be from it at `now_ns`.
    pub(crate) fn bound_at(&self, now_ns: u64) -> u64 {
        let wander = now_ns.saturating_sub(self.at_ns) / (1_000_000 / WANDER_PPM);
        self.bound_ns.saturating_add(wander)
    }

    /// Where the truth is at `now_ns`.
    pub(crate) fn interval_at(&self, now_ns: u64) -> Interval {
        let (offset, bound) = (self.offset_ns as f64, self.bound_at(now_ns) as f64);
        Interval { low: offset - bound, high: offset + bound }
    }

    /// Whether this and an `earlier` reading can both be right.
    pub(crate) fn agrees_with(&self, earlier: &Self) -> bool {
        let apart = self.offset_ns.abs_diff(earlier.offset_ns);
        apart <= self.bound_ns.saturating_add(earlier.bound_at(self.at_ns))
    }

    /// Whether it is nothing to correct. By less than twice the bound a
    /// correction may leave the clock worse than it found it.
    pub(crate) fn is_within(&self, tolerance_ns: u64) -> bool {
        let size_ns = self.offset_ns.unsigned_abs();
        size_ns <= tolerance_ns || size_ns / 2 < self.bound_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(offset_ns: i64, bound_ns: u64, at_ns: u64) -> Reading {
        Reading { offset_ns, bound_ns, at_ns }
    }

    #[test]
    fn readings_agree_within_their_bounds_and_the_time_between() {
        let first = reading(0, 100, 0);
        assert!(reading(200, 100, 0).agrees_with(&first));
        assert!(!reading(201, 100, 0).agrees_with(&first));
        // A second later either may have wandered by a millisecond.
        assert!(reading(1_000_200, 100, 1_000_000_000).agrees_with(&first));
        assert!(!reading(1_000_201, 100, 1_000_000_000).agrees_with(&first));
        assert!(!reading(i64::MAX, 0, 0).agrees_with(&reading(i64::MIN, 0, 0)));
    }

    #[test]
    fn what_is_within_twice_the_bound_is_left_alone() {
        assert!(reading(-199, 100, 0).is_within(0));
        assert!(!reading(-200, 100, 0).is_within(0));
        assert!(reading(-100, 0, 0).is_within(100));
        assert!(!reading(-101, 50, 0).is_within(100));
        assert!(!reading(i64::MIN, 0, 0).is_within(100));
    }
}
