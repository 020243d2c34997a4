//! What to measure, and for how long.

use std::time::Duration;

use crate::clock_call::Call;

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    /// Calls to time.
    pub calls: Vec<Call>,
    /// Whether to time our own reader of the kvm-clock page.
    pub page: bool,
    /// Samples of each call at most.
    pub samples: u64,
    /// Time for the costs of all calls together.
    pub costs: Duration,
    /// Time limit for one clock's steps and order.
    pub steps: Duration,
    /// Time limit for one pair of CPUs.
    pub pair: Duration,
    /// Most pairs of CPUs.
    pub pairs: usize,
}

impl MeasurementPlan {
    /// All calls, within `budget` altogether: about half for the costs.
    pub fn within(budget: Duration) -> Self {
        Self {
            costs: budget / 2,
            steps: budget / 40,
            pair: budget / 40,
            pairs: 8,
            ..Self::thorough(budget)
        }
    }

    /// All calls, timed for `costs`, and every clock and pair of CPUs at length.
    pub fn thorough(costs: Duration) -> Self {
        Self {
            calls: Call::all(),
            page: true,
            samples: u64::MAX,
            costs,
            steps: Duration::from_millis(100),
            pair: Duration::from_millis(200),
            pairs: 64,
        }
    }

    /// `clock_gettime(CLOCK_MONOTONIC)` alone, timed for `costs`.
    pub fn monotonic(costs: Duration) -> Self {
        Self {
            calls: vec![Call::ClockGettime(linux::clock::LinuxClock::Monotonic)],
            page: false,
            samples: u64::MAX,
            costs,
            steps: Duration::ZERO,
            pair: Duration::ZERO,
            pairs: 0,
        }
    }

    /// How long the whole takes, roughly: two coarse clocks use their time limit.
    pub fn expected(&self) -> Duration {
        self.costs + self.steps * 2 + self.pair
    }
}
