//! Which machine is sampled when, on two CPUs.
//!
//! All machines run at the same time, and are idle except when sampled. Two
//! clocks need more:
//!
//! - the PIT wraps in 54.9 ms, and a vCPU that follows it keeps a CPU busy: one
//!   machine does at a time, each for its *turn*;
//! - the RTC is polled for the edge of its second: at each edge by few machines,
//!   those with the fewest edges so far.

use std::time::Duration;

/// The ACPI PM timer's 24 bits wrap in 4.69 s: sampled in half of that.
const STEP_MAX: Duration = Duration::from_secs(2);

/// At least so many steps a turn: one reading between its ends.
const STEPS_PER_TURN_MIN: u32 = 2;

/// Steps of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DriftSchedule {
    duration: Duration,
    machines: u32,
    steps_per_turn: u32,
}

impl DriftSchedule {
    /// For `machines`, at least one.
    pub(super) fn new(duration: Duration, machines: usize) -> Self {
        let machines = (machines as u32).max(1);
        let longest = STEP_MAX.as_nanos() * u128::from(machines);
        let steps_per_turn = duration.as_nanos().div_ceil(longest) as u32;
        Self { duration, machines, steps_per_turn: steps_per_turn.max(STEPS_PER_TURN_MIN) }
    }

    /// How many; there is a sample before the first and after each.
    pub(super) fn steps(self) -> u32 {
        self.machines * self.steps_per_turn
    }

    /// When the sample after `step` steps is due, since the start.
    pub(super) fn due(self, step: u32) -> Duration {
        self.duration * step / self.steps()
    }

    /// Which samples belong to a machine's turn with the PIT, the first and the
    /// last included.
    pub(super) fn turn(self, machine: usize) -> std::ops::RangeInclusive<u32> {
        let first = machine as u32 * self.steps_per_turn;
        first..=first + self.steps_per_turn
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
        assert_eq!((schedule.turn(0), schedule.turn(4)), (0..=2, 8..=10));
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
