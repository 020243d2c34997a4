//! When the machines are sampled, on two CPUs.
//!
//! All machines run at the same time, and are idle except when sampled. The RTC is polled
//! for the edge of its second: at each edge by few machines, those with the fewest edges
//! so far.

use std::time::Duration;

/// The ACPI PM timer's 24 bits wrap in 4.69 s: sampled in half of that.
const STEP_MAX: Duration = Duration::from_secs(2);

/// At least so many steps: some samples are disturbed.
const STEPS_MIN: u32 = 10;

/// Steps of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DriftSchedule {
    duration: Duration,
    machines: u32,
}

impl DriftSchedule {
    /// For `machines`, at least one.
    pub(super) fn new(duration: Duration, machines: usize) -> Self {
        Self { duration, machines: (machines as u32).max(1) }
    }

    /// How many; there is a sample before the first and after each.
    pub(super) fn steps(self) -> u32 {
        let steps = self.duration.as_nanos().div_ceil(STEP_MAX.as_nanos());
        (steps as u32).max(STEPS_MIN)
    }

    /// When the sample after `step` steps is due, since the start.
    pub(super) fn due(self, step: u32) -> Duration {
        self.duration * step / self.steps()
    }

    /// How many machines poll for each edge of the RTC, so that each sees two
    /// even if it misses one.
    pub(super) fn pollers(self) -> usize {
        let edges = u32::try_from(self.duration.as_secs()).unwrap_or(u32::MAX);
        let polls = self.machines * 2;
        polls.div_ceil(edges.saturating_sub(1).max(1)).min(self.machines) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_machines_share_ten_seconds() {
        let schedule = DriftSchedule::new(Duration::from_secs(10), 5);
        assert_eq!((schedule.steps(), schedule.pollers()), (10, 2));
        assert_eq!(schedule.due(3), Duration::from_secs(3));
    }

    #[test]
    fn no_step_is_longer_than_the_pm_timer_allows() {
        let schedule = DriftSchedule::new(Duration::from_secs(300), 4);
        assert!(schedule.due(1) <= STEP_MAX, "{schedule:?}");
        assert_eq!(schedule.due(schedule.steps()), Duration::from_secs(300));
        assert_eq!(schedule.pollers(), 1);
    }

    #[test]
    fn a_short_run_polls_on_all_machines_at_once() {
        let schedule = DriftSchedule::new(Duration::from_secs(2), 5);
        assert_eq!((schedule.steps(), schedule.pollers()), (10, 5));
        assert_eq!(DriftSchedule::new(Duration::from_millis(500), 0).pollers(), 1);
    }
}
