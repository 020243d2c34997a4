//! What the instruments found, in plain units: the types that reports,
//! rules and files share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An RDTSC above this was emulated by the hypervisor: the instruction takes
/// 6–25 ns, an exit to the host 500 ns and more.
pub const TRAPPED_RDTSC_NS: f64 = 250.0;

/// The cheapest reads of the CPU's counter: on x86, on arm64.
const COUNTER_READS: [&str; 2] = ["rdtsc", "mrs cntvct_el0"];

/// All that was measured on a machine in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurements {
    /// Clock source in use meanwhile, where known.
    pub clocksource: Option<String>,
    /// Cost of each call.
    pub costs: Vec<CallCost>,
    /// Granularity of each clock.
    pub granularity: Vec<Granularity>,
    /// TSC of one CPU against another's.
    pub skews: Vec<Skew>,
    /// Backward steps seen.
    pub order: Vec<Order>,
    /// The TSC's rate against the kernel's raw clock.
    pub tsc_rate: Option<TscRate>,
    /// CPU time that the host stole meanwhile, where that was looked at.
    #[serde(default)]
    pub stolen: Option<StolenShare>,
    /// The system clock beside references: NTP servers and the host's clock.
    #[serde(default)]
    pub references: Vec<ComparedReference>,
    /// What could not be measured.
    pub not_measured: Vec<NotMeasured>,
}

impl Measurements {
    /// The cost of `call`, where it was measured.
    pub fn cost(&self, call: &str) -> Option<&CallCost> {
        self.costs.iter().find(|cost| cost.call == call)
    }

    /// The cost of reading the CPU's counter, where it was measured.
    pub fn counter_cost(&self) -> Option<&CallCost> {
        COUNTER_READS.iter().find_map(|call| self.cost(call))
    }

    /// Notes that `what` could not be measured, and why; once, however often
    /// it was tried.
    pub fn miss(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let missing = NotMeasured { what: what.into(), why: why.into() };
        if !self.not_measured.contains(&missing) {
            self.not_measured.push(missing);
        }
    }
}

/// The system clock beside a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedReference {
    /// Its kind and name: `ntp time.example`, `phc /dev/ptp0`.
    pub name: String,
    /// The reference minus the system clock, s; null where it gave no time.
    pub offset_s: Option<f64>,
    /// The true offset is within ± this, if the reference states its own error rightly, s.
    pub bound_s: f64,
    /// Why it gave no time.
    pub why_not: Option<String>,
}

/// A distribution's landmarks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Half are at most this.
    pub median: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of all these values, of either sign, exactly; nothing of none.
    pub fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        // The least value that this share of all do not exceed.
        let at = |share: f64| values[((values.len() as f64 * share).ceil() as usize - 1).min(last)];
        Some(Self { min: values[0], median: at(0.5), p99: at(0.99), max: values[last] })
    }

    /// The same landmarks in another unit, `factor` of which make one.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            min: self.min * factor,
            median: self.median * factor,
            p99: self.p99 * factor,
            max: self.max * factor,
        }
    }
}

/// What one way of reading a clock costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallCost {
    /// `clock_gettime(CLOCK_MONOTONIC)`, `gettimeofday`, `rdtsc`.
    pub call: String,
    /// Nanoseconds a call.
    pub ns: Spread,
    /// TSC cycles a call, where the TSC can be read.
    pub cycles: Option<Spread>,
    /// Samples taken; each is the mean of `calls_per_sample` calls.
    pub samples: u64,
    /// Calls in one sample.
    pub calls_per_sample: u64,
    /// Samples beyond the outlier fence (third quartile + 3 quartile ranges).
    pub outliers: u64,
    /// How the calls went: counted, not guessed.
    pub path: ReadPath,
    /// Histogram of the samples: (lower edge, ns; samples), empty bins left
    /// out. A bin reaches 2.2 % (a 32nd of a doubling) above its lower edge.
    pub histogram: Vec<(f64, u64)>,
}

/// What served a clock call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "path")]
pub enum ReadPath {
    /// An instruction, no call into anything.
    Instruction,
    /// `entered` of `calls` trial calls went into the kernel.
    Counted {
        /// Trial calls.
        calls: u64,
        /// Of them, those that entered the kernel.
        entered: u64,
    },
    /// Could not be counted here.
    NotCounted,
}

impl ReadPath {
    /// Whether every trial call entered the kernel.
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Counted { calls, entered } if entered == calls && calls > 0)
    }
}

/// The smallest step by which a clock moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Granularity {
    /// `CLOCK_MONOTONIC`
    pub clock: String,
    /// Smallest step seen, ns, within one: the greatest that all differences
    /// of readings are whole numbers of, so reading may take longer than it.
    pub smallest_step_ns: Option<u64>,
    /// What `clock_getres` claims, ns.
    pub claimed_ns: Option<u64>,
}

/// TSC of one CPU against another's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skew {
    /// First CPU.
    pub cpu_a: u32,
    /// Second CPU.
    pub cpu_b: u32,
    /// Estimated TSC of `cpu_b` minus TSC of `cpu_a` at one instant, ns.
    pub offset_ns: f64,
    /// The truth is within ± this of the estimate, ns.
    pub bound_ns: f64,
    /// Round trips the estimate rests on.
    pub round_trips: u64,
}

/// Whether a clock ever stepped back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    /// `rdtsc across CPUs`, `CLOCK_MONOTONIC`
    pub clock: String,
    /// Readings compared.
    pub readings: u64,
    /// Of them, those smaller than the one before.
    pub backward: u64,
    /// The largest step back, ns.
    pub largest_backward_ns: f64,
}

/// TSC frequency measured against CLOCK_MONOTONIC_RAW.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TscRate {
    /// Measured, Hz.
    pub hz: f64,
    /// The truth, as the reference has it, is within ± this, ppm.
    pub bound_ppm: f64,
    /// Length of the measurement, s.
    pub over_s: f64,
}

/// CPU time stolen by the host during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StolenShare {
    /// Part of all CPUs' time, 0 to 1; the kernel counts it in steps of 10 ms.
    pub share: f64,
    /// Length of the measurement, s.
    pub over_s: f64,
}

/// A figure that could not be had, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotMeasured {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_values_themselves() {
        let values = (1..=200).map(|value| f64::from(value) - 100.0).collect();
        let spread = Spread { min: -99.0, median: 0.0, p99: 98.0, max: 100.0 };
        assert_eq!(Spread::from_values(values), Some(spread));
        let one = Spread { min: 5.0, median: 5.0, p99: 5.0, max: 5.0 };
        assert_eq!(Spread::from_values(vec![5.0]), Some(one));
        assert_eq!(Spread::from_values(Vec::new()), None);
    }
}
