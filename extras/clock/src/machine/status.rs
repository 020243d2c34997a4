//! A clock's state.

use std::time::Duration;

use crate::timeline::bound::ErrorFrom;
use crate::timeline::maintenance::Maintenance;
use crate::timeline::steering::{Distrust, SteeringDisruption};

/// What a clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The TSC, at this frequency.
    Tsc {
        /// As last measured against the system's clock, cycles a second.
        hz: u64,
    },
    /// The system's clock, while the TSC is measured.
    Measuring,
    /// The system's clock: the TSC cannot be trusted.
    System(Distrust),
}

/// A clock's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineClockStatus {
    /// What it counts.
    pub source: Source,
    /// How far it was from CLOCK_MONOTONIC when last compared, the
    /// comparison's own uncertainty included.
    pub tracking: Duration,
    /// How far this clock's time of day may be from UTC; `None` where nothing
    /// bounds it. As of the last comparison: where time stands still until the
    /// system's clock reaches the times returned already,
    /// [`SystemTime::error`](crate::SystemTime::error) includes that, too.
    pub error: Option<Duration>,
    /// Where that bound comes from.
    pub error_from: Option<ErrorFrom>,
    /// How often TSC and system disagreed, or the host announced that the
    /// machine was restored or migrated.
    pub disruptions: u64,
    /// The last one.
    pub last_disruption: Option<SteeringDisruption>,
    /// How often the time of day was set.
    pub realtime_steps: u64,
}

impl MachineClockStatus {
    pub(crate) fn new(maintenance: &Maintenance) -> Self {
        let steering = &maintenance.steering;
        let source = match (steering.distrust(), steering.rate()) {
            (Some(why), _) => Source::System(why),
            (None, Some(rate)) => Source::Tsc { hz: rate.hz() },
            (None, None) => Source::Measuring,
        };
        Self {
            source,
            tracking: Duration::from_nanos(steering.tracking_ns),
            error: maintenance.view.error_ns.map(Duration::from_nanos),
            error_from: maintenance.error_from,
            disruptions: steering.disruptions,
            last_disruption: steering.last_disruption,
            realtime_steps: maintenance.realtime.steps,
        }
    }
}
