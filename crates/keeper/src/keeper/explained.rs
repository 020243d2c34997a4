//! How far disruptions explain that the clock is off.
//!
//! A pause of 60.0 s that this machine's own clocks show leaves the time of day
//! 60.0 s behind. A source that reports just that is believed alone: it would
//! have to lie by the length of the pause.

use disruptions::Disruption;
use instruments::steps::Interval;
use units::OffsetBound;

use crate::offset::Offset;

/// By how much the clock is behind since it was last right, as far as the
/// disruptions since then show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Explained {
    /// There was none.
    #[default]
    Nothing,
    /// It is behind by this, ns.
    Behind(Interval),
    /// There was one of unknown size.
    Unknown,
}

impl Explained {
    /// Another disruption happened.
    pub(super) fn add(&mut self, disruption: &Disruption) {
        let before = match *self {
            Self::Nothing => Interval { low: 0.0, high: 0.0 },
            Self::Behind(before) => before,
            Self::Unknown => return,
        };
        *self = disruption.behind.map_or(Self::Unknown, |size| {
            let (low, high) = (size.ns - size.bound_ns, size.ns + size.bound_ns);
            Self::Behind(Interval { low: before.low + low, high: before.high + high })
        });
    }

    /// The clock was moved by this.
    pub(super) fn moved(&mut self, by_ns: i64) {
        if let Self::Behind(behind) = self {
            let by = by_ns as f64;
            *behind = Interval { low: behind.low - by, high: behind.high - by };
        }
    }

    /// Whether it is why the clock is off by `offset`: both agree, and it is
    /// known to within half its size, so that nothing that agrees with it makes
    /// the clock worse. `left_ns` may have been left uncorrected before.
    pub(super) fn accounts_for(&self, offset: &OffsetBound, left_ns: u64, now_ns: u64) -> bool {
        let Self::Behind(behind) = self else { return false };
        let left = left_ns as f64;
        let (low, high) = (behind.low - left, behind.high + left);
        let shown = offset.interval_at(now_ns);
        let smallest = if low > 0.0 { low } else { -high };
        shown.low <= high && low <= shown.high && high - low <= smallest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disruptions::{Kind, Size};

    fn pause(ns: f64, bound_ns: f64) -> Disruption {
        let behind = Some(Size { ns, bound_ns });
        Disruption {
            kinds: Kind::Pause.into(),
            at_monotonic_ns: 0,
            size: behind,
            behind,
            evidence: Vec::new(),
        }
    }

    fn shown(offset_ns: i64) -> OffsetBound {
        OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns: 0 }
    }

    #[test]
    fn a_pause_accounts_for_its_own_length() {
        let mut explained = Explained::default();
        assert!(!explained.accounts_for(&shown(0), 1000, 0));
        explained.add(&pause(60e9, 1e6));
        assert!(explained.accounts_for(&shown(60_000_000_000), 1000, 0));
        assert!(explained.accounts_for(&shown(59_999_000_000), 1000, 0));
        assert!(!explained.accounts_for(&shown(59_990_000_000), 1000, 0));
        assert!(!explained.accounts_for(&shown(-60_000_000_000), 1000, 0));
        explained.add(&pause(2e9, 1e6));
        assert!(explained.accounts_for(&shown(62_000_000_000), 1000, 0));
        explained.moved(62_000_000_000);
        assert!(!explained.accounts_for(&shown(62_000_000_000), 1000, 0));
    }

    #[test]
    fn one_of_unknown_or_vague_size_accounts_for_nothing() {
        let mut vague = Explained::default();
        vague.add(&pause(2e9, 1.5e9));
        assert!(!vague.accounts_for(&shown(2_000_000_000), 0, 0));
        let mut unknown = Explained::default();
        unknown.add(&Disruption { behind: None, ..pause(2e9, 0.0) });
        unknown.add(&pause(2e9, 0.0));
        assert!(!unknown.accounts_for(&shown(2_000_000_000), 0, 0));
    }
}
