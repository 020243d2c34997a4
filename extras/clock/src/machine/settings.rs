//! How a clock is maintained.

use std::time::Duration;

use crate::timeline::segment::LONGEST_NS;
use crate::timeline::steering::SteeringLimits;

/// How a clock is maintained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a segment of time is. The system is sampled about once a
    /// segment, while the clock is read; a change of its rate takes effect at
    /// the end of the segment. At least 1 ms, at most 4 s.
    pub segment: Duration,
    /// How much faster or slower than the system the clock may run to converge
    /// with it, ppm: by default 500, as the kernel itself slews.
    pub slew_ppm: u32,
    /// The error of CLOCK_REALTIME where nothing else bounds it; `None` for
    /// unknown.
    pub unsynchronised_error: Option<Duration>,
    /// Where the VMClock page is, if the host offers one.
    pub vmclock: &'static str,
    /// Where a ClockBound daemon, or `parachron keep --clockbound`, publishes
    /// the error of CLOCK_REALTIME, if one does: a segment of layout 1 or 2. It
    /// is mapped: a process that shortens the file ends its readers (SIGBUS), so
    /// it has to be of a folder that only a trusted one writes to. An empty path
    /// is none.
    pub clockbound: &'static str,
}

impl Settings {
    /// A segment of 20 ms, a slew of 500 ppm, an unknown error where nothing
    /// bounds it, `/dev/vmclock0` and `/var/run/clockbound/shm0`.
    pub const DEFAULT: Self = Self {
        segment: Duration::from_millis(20),
        slew_ppm: 500,
        unsynchronised_error: None,
        vmclock: "/dev/vmclock0",
        clockbound: "/var/run/clockbound/shm0",
    };

    pub(crate) const fn limits(&self) -> SteeringLimits {
        let wanted = self.segment.as_nanos();
        let most = LONGEST_NS as u128;
        let segment_ns = if wanted < 1_000_000 {
            1_000_000
        } else if wanted > most {
            LONGEST_NS
        } else {
            wanted as u64
        };
        let slew_ppm = if self.slew_ppm > 100_000 { 100_000 } else { self.slew_ppm };
        SteeringLimits { segment_ns, slew_ppm }
    }

    pub(crate) const fn unsynchronised_ns(&self) -> Option<u64> {
        match self.unsynchronised_error {
            Some(error) => Some(error.as_nanos() as u64),
            None => None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}
