//! One probe: what it reads, how often, and which field of the sample it
//! fills.

use std::time::{Duration, Instant};

use facts::{Fact, Sample};

/// Fills one field of a sample.
pub(super) trait SamplerProbe {
    /// Reads it if it is due, and in any case if `all` are to be read.
    fn sample(&mut self, all: bool, sample: &mut Sample);
}

/// A probe may take this part of a CPU: its period is so many times the time
/// that it takes. On 64 CPUs `/proc/stat` takes some 0.3 ms and the names of all processes
/// 10 ms; both together are to cost a daemon a quarter of its 0.05 %.
const PERIODS_PER_COST: u32 = 16_000;

/// But it is no longer than this.
const LONGEST: Duration = Duration::from_secs(5);

/// How often to read what takes `cost` each time, so that it takes at most a 16,000th of a
/// CPU: a period from `least` to `longest`.
///
/// ```
/// # use std::time::Duration;
/// let period = |cost_ms| {
///     let seconds = [60, 300].map(Duration::from_secs);
///     inspect::sampler::affordable_period(Duration::from_millis(cost_ms), seconds).as_secs()
/// };
/// assert_eq!([0, 10, 1000].map(period), [60, 160, 300]);
/// ```
pub fn affordable_period(cost: Duration, [least, longest]: [Duration; 2]) -> Duration {
    cost.saturating_mul(PERIODS_PER_COST).min(longest).max(least)
}

/// How often a device is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProbePeriod {
    /// In each sample: for what costs a system call or less.
    EachSample,
    /// By whether this sample has a kvm-clock page.
    ByPage {
        /// With one, ns.
        with_ns: u64,
        /// Without, ns.
        without_ns: u64,
    },
    /// No more often than `least_ns`, and less often where the machine is so
    /// large that reading takes long.
    ByCost {
        /// The shortest period, ns.
        least: Duration,
        /// The least that a reading took so far.
        cost: Option<Duration>,
    },
}

impl ProbePeriod {
    /// No more often than this, and so that it takes at most a 16,000th of a CPU.
    pub(super) const fn by_cost(least: Duration) -> Self {
        Self::ByCost { least, cost: None }
    }

    /// Until the next reading, for a device that is to be read in `sample`.
    pub(super) fn ns(self, sample: &Sample) -> u64 {
        match self {
            Self::ByPage { with_ns, .. } if sample.page.value().is_some() => with_ns,
            Self::ByPage { without_ns, .. } => without_ns,
            Self::EachSample => 0,
            Self::ByCost { least, cost } => {
                let period = affordable_period(cost.unwrap_or_default(), [least, LONGEST]);
                u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }

    /// A reading took this long; an interrupted one takes longer.
    pub(super) fn took(&mut self, took: Duration) {
        if let Self::ByCost { cost, .. } = self {
            *cost = Some(cost.map_or(took, |least| least.min(took)));
        }
    }
}

/// Reads a field from a device that is read no more often than its period.
struct Field<T, U> {
    device: Fact<T>,
    period: ProbePeriod,
    /// CLOCK_MONOTONIC when it was last read, ns.
    read_at_ns: Option<u64>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
}

/// Reads `device` once per `period`; between, the field stays as the sampler
/// initialised it.
pub(super) fn probe<T: 'static, U: 'static>(
    period: ProbePeriod,
    device: Fact<T>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
) -> Box<dyn SamplerProbe> {
    Box::new(Field { device, period, read_at_ns: None, read, field })
}

impl<T, U> SamplerProbe for Field<T, U> {
    fn sample(&mut self, all: bool, sample: &mut Sample) {
        let device = match &mut self.device {
            Fact::Known(device) => device,
            Fact::Unknown(why) => {
                *(self.field)(sample) = Fact::Unknown(why.clone());
                return;
            }
        };
        let now_ns = sample.monotonic_ns;
        let is_due = self
            .read_at_ns
            .is_none_or(|last| now_ns.saturating_sub(last) >= self.period.ns(sample));
        if all || is_due {
            self.read_at_ns = Some(now_ns);
            let begun = Instant::now();
            *(self.field)(sample) = (self.read)(device);
            self.period.took(begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/stat` takes some 30 µs with 2 CPUs, and a ms with hundreds.
    #[test]
    fn what_takes_long_is_read_less_often() {
        let periods_ms = [30, 100, 150, 1000, 9000].map(|cost_us| {
            let mut period = ProbePeriod::by_cost(Duration::from_millis(900));
            let sample = Sample::new(0);
            assert_eq!(period.ns(&sample), 900_000_000);
            period.took(Duration::from_micros(cost_us + 5000));
            period.took(Duration::from_micros(cost_us));
            period.ns(&sample) / 1_000_000
        });
        assert_eq!(periods_ms, [900, 1600, 2400, 5000, 5000]);
    }
}
