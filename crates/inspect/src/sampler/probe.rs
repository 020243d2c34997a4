//! One probe: what it reads, how often, and which field of the sample it
//! fills.

use std::time::Instant;

use facts::{Fact, Sample};

/// Fills one field of a sample.
pub(super) trait Probe {
    /// Reads it if it is due, and in any case if `all` are to be read.
    fn sample(&mut self, all: bool, sample: &mut Sample);
}

/// A probe may take this part of a CPU: its period is so many times the time
/// that it takes.
const PERIODS_PER_COST: u64 = 8000;

/// But it is no longer than this, ns.
const LONGEST_NS: u64 = 5_000_000_000;

/// How often a device is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Period {
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
        least_ns: u64,
        /// The least that a reading took so far, ns.
        cost_ns: Option<u64>,
    },
}

impl Period {
    /// No more often than this, and so that it takes at most an 8000th of a CPU.
    pub(super) const fn by_cost(least_ns: u64) -> Self {
        Self::ByCost { least_ns, cost_ns: None }
    }

    /// Until the next reading, for a device that is to be read in `sample`.
    pub(super) fn ns(self, sample: &Sample) -> u64 {
        match self {
            Self::ByPage { with_ns, .. } if sample.page.known().is_some() => with_ns,
            Self::ByPage { without_ns, .. } => without_ns,
            Self::EachSample => 0,
            Self::ByCost { least_ns, cost_ns } => {
                let affordable_ns = cost_ns.unwrap_or(0).saturating_mul(PERIODS_PER_COST);
                affordable_ns.min(LONGEST_NS).max(least_ns)
            }
        }
    }

    /// A reading took this long; an interrupted one takes longer.
    pub(super) fn took(&mut self, took_ns: u64) {
        if let Self::ByCost { cost_ns, .. } = self {
            *cost_ns = Some(cost_ns.map_or(took_ns, |least| least.min(took_ns)));
        }
    }
}

/// Reads a field from a device that is read no more often than its period.
struct Field<T, U> {
    device: Fact<T>,
    period: Period,
    /// CLOCK_MONOTONIC when it was last read, ns.
    read_at_ns: Option<u64>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
}

/// Reads `device` once per `period`; between, the field stays as the sampler
/// initialised it.
pub(super) fn probe<T: 'static, U: 'static>(
    period: Period,
    device: Fact<T>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
) -> Box<dyn Probe> {
    Box::new(Field { device, period, read_at_ns: None, read, field })
}

impl<T, U> Probe for Field<T, U> {
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
            self.period.took(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/stat` takes some 30 µs with 2 CPUs, and a ms with hundreds.
    #[test]
    fn what_takes_long_is_read_less_often() {
        let periods_ms = [30, 200, 300, 1000, 9000].map(|cost_us| {
            let mut period = Period::by_cost(900_000_000);
            let sample = Sample::at(0);
            assert_eq!(period.ns(&sample), 900_000_000);
            period.took(cost_us * 1000 + 5_000_000);
            period.took(cost_us * 1000);
            period.ns(&sample) / 1_000_000
        });
        assert_eq!(periods_ms, [900, 1600, 2400, 5000, 5000]);
    }
}
