//! How a clock stands.

use std::time::Duration;

use crate::timeline::bound::Voucher;
use crate::timeline::maintenance::Maintenance;
use crate::timeline::steering::{Disruption, Distrust};

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
    /// The system's clock, for the TSC cannot be trusted.
    System(Distrust),
}

/// How a clock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// What it counts.
    pub source: Source,
    /// How far it was from CLOCK_MONOTONIC when last compared, the
    /// comparison's own uncertainty included.
    pub tracking: Duration,
    /// How far CLOCK_REALTIME, as this clock tells it, may be from the truth;
    /// `None` if nobody vouches for it. As of the last comparison: where time
    /// waits for the system's clock to come up with what was told already,
    /// [`SystemTime::error`](crate::SystemTime::error) has that, too.
    pub error: Option<Duration>,
    /// Who vouches for it.
    pub voucher: Option<Voucher>,
    /// How often TSC and system disagreed, or the host announced that the
    /// machine was restored or migrated.
    pub disruptions: u64,
    /// The last one.
    pub last_disruption: Option<Disruption>,
    /// How often somebody set the time of day.
    pub realtime_steps: u64,
}

impl Status {
    pub(crate) fn of(maintenance: &Maintenance) -> Self {
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
            voucher: maintenance.voucher,
            disruptions: steering.disruptions,
            last_disruption: steering.last_disruption,
            realtime_steps: maintenance.realtime.steps,
        }
    }
}
