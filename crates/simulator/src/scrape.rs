//! What a monitor's scrape of a guest finds, beside the truth that no monitor has.

use std::collections::BTreeMap;

use facts::steering::Adjtimex;
use keeper::KeeperView;

use crate::outcome::Counts;

/// A scrape of a guest.
#[derive(Debug, Clone)]
pub struct SimulatedScrape {
    /// When it was due, true ns since the start; a guest that was away for less than
    /// [`TIMEOUT_NS`] replies late.
    pub at_ns: i64,
    /// What the clock is ahead of UTC, ns: the truth.
    pub error_ns: i64,
    /// adjtimex.
    pub kernel: Adjtimex,
    /// The kernel's clock source.
    pub clocksource: &'static str,
    /// Stolen from its CPU, ns.
    pub stolen_ns: u64,
    /// What was done so far.
    pub counts: Counts,
    /// What `parachron keep` knows, where it runs.
    pub keeper: Option<KeeperScrape>,
    /// What the regression or the PLL knows, where it runs.
    pub tracking: Option<SimulatedTracking>,
}

/// What the daemon knows.
#[derive(Debug, Clone)]
pub struct KeeperScrape {
    /// The clock and the sources.
    pub view: KeeperView,
    /// CLOCK_MONOTONIC, ns, which the view is of.
    pub now_ns: u64,
    /// The disruptions that it has reported, by kind: how many, and when the last,
    /// CLOCK_MONOTONIC, ns.
    pub disruptions: BTreeMap<String, (u64, u64)>,
}

/// What chronyd shows (`chronyc tracking`), or ntpd of its system peer (`ntpq -c rv`).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimulatedTracking {
    /// What is to be added to the clock, s: what chronyd still has to slew, or ntpd measured.
    pub left_s: f64,
    /// The offset at the last update, s, by the line through the last samples.
    pub last_offset_s: f64,
    /// Root dispersion and half the root delay, s: it grows from one update to the next.
    pub root_s: f64,
    /// How long ago the last update was, s.
    pub age_s: f64,
}

/// A scrape that has no reply for so long has failed, ns: Prometheus' default.
pub const TIMEOUT_NS: i64 = 10_000_000_000;

/// When a guest is scraped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScrapeSchedule {
    each_ns: i64,
    pub(crate) next_ns: i64,
}

impl ScrapeSchedule {
    pub(crate) const fn each(each_ns: i64) -> Self {
        Self { each_ns, next_ns: each_ns / 3 }
    }

    /// When the one that is due now was due; the next follows.
    pub(crate) const fn take(&mut self) -> i64 {
        let due_ns = self.next_ns;
        self.next_ns += self.each_ns;
        due_ns
    }

    /// The guest was away: scrapes meanwhile have failed.
    pub(crate) const fn resumed(&mut self, now_ns: i64) {
        let late_ns = now_ns - self.next_ns;
        if late_ns >= TIMEOUT_NS {
            self.next_ns += ((late_ns - TIMEOUT_NS) / self.each_ns + 1) * self.each_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_may_be_late_and_is_not_made_up_for() {
        const S: i64 = 1_000_000_000;
        let mut schedule = ScrapeSchedule::each(60 * S);
        assert_eq!((schedule.take(), schedule.next_ns), (20 * S, 80 * S));
        schedule.resumed(89 * S);
        assert_eq!(schedule.next_ns, 80 * S);
        schedule.resumed(90 * S);
        assert_eq!(schedule.next_ns, 140 * S);
        schedule.resumed(1_000 * S);
        assert_eq!(schedule.next_ns, 1_040 * S);
    }
}
