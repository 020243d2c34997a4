//! Who is late, and why: figures with their tails, gaps in which a loop did not
//! run, what the kernel counted meanwhile, and the cause that this proves.

pub mod around;
pub mod cause;
pub mod conditions;
pub mod echo;
pub mod hidden;
pub mod proof;
pub mod sweep;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::measurements::{NotMeasured, StolenShare, Throughput};
use cause::LatenessCause;
use conditions::Conditions;
use echo::EchoReplies;
use sweep::Sweep;

/// What was measured of lateness in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Length of the run, s.
    pub over_s: f64,
    /// Each figure, in the order measured.
    pub figures: Vec<Figure>,
    /// The longest delays, in the order seen, each with its cause.
    pub delays: Vec<Delay>,
    /// For how long loops ran without any gap, s, where there was none at all.
    pub no_gap_over_s: Option<f64>,
    /// Gaps too short to be looked into one by one.
    pub short_gaps: Vec<ShortGaps>,
    /// Pipe-based context switching, placed by the scheduler: one copy, and one
    /// a CPU.
    pub switches: Vec<Throughput>,
    /// CPU time that the host stole during the run, by `/proc/stat`.
    pub stolen: Option<StolenShare>,
    /// Wake-ups after idle gaps of growing length.
    pub sweep: Option<Sweep>,
    /// What else decides how late a program is.
    pub conditions: Conditions,
    /// What the peer answered, where one was named.
    pub answers: Option<EchoReplies>,
    /// CPU time this measurement used, s.
    pub used_cpu_s: f64,
    /// What could not be measured.
    pub not_measured: Vec<NotMeasured>,
}

impl Latency {
    /// The figure of this kind.
    pub fn figure(&self, kind: FigureKind) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.kind == kind)
    }

    /// Adds a figure, or why there is none.
    pub fn add_figure(&mut self, kind: FigureKind, samples: &Distribution) {
        match Landmarks::from_samples(samples) {
            Some(ns) => self.figures.push(Figure { kind, ns, histogram: samples.bins(1.0) }),
            None => self.miss(kind.name(), "no sample came in time"),
        }
    }

    /// Notes that `what` could not be measured, and why.
    pub fn miss(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_measured.push(NotMeasured { what: what.into(), why: why.into() });
    }

    /// The round trips a second of a pipe-based figure: its mean decides, as
    /// UnixBench counts loops, not delays.
    pub fn loops_per_s(&self, kind: FigureKind) -> Option<f64> {
        self.figure(kind).map(|figure| 1e9 / figure.ns.mean)
    }
}

/// UnixBench's index of pipe-based context switching: its base machine, a
/// SPARCstation 20-61, made 4000 loops a second and has the index 10
/// (UnixBench/pgms/index.base, `context1`).
///
/// ```
/// assert_eq!(instruments::latency::unixbench_index(131_600.0), 329.0);
/// ```
pub fn unixbench_index(loops_per_s: f64) -> f64 {
    loops_per_s / 4000.0 * 10.0
}

/// What a figure is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// From the time asked for to the return of an absolute `clock_nanosleep`,
    /// with a timer slack of 1 ns.
    TimerWakeUp,
    /// The same while a loop of least priority keeps that CPU from idling.
    TimerWakeUpAwake,
    /// The same with the timer slack that this program inherited.
    TimerWakeUpInheritedSlack,
    /// From a write to an eventfd to the reader's return on another CPU.
    CrossCpuWakeUp,
    /// An expedited membarrier while another thread runs on another CPU: an
    /// interrupt sent, served and confirmed.
    Ipi,
    /// CPUID: in a virtual machine an exit to the host and back.
    Exit,
    /// Times in which a spinning loop did not run.
    Gap,
    /// The part of each of these that the host stole.
    Stolen,
    /// A token there and back through two pipes, both processes on one CPU.
    PipeOneCpu,
    /// The same, each process on a CPU of its own.
    PipeAcrossCpus,
    /// A message to the peer and its answer.
    Echo,
}

impl FigureKind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimerWakeUp => "timer wake-up",
            Self::TimerWakeUpAwake => "timer wake-up, CPU kept awake",
            Self::TimerWakeUpInheritedSlack => "timer wake-up, inherited slack",
            Self::CrossCpuWakeUp => "wake-up across CPUs",
            Self::Ipi => "IPI (membarrier)",
            Self::Exit => "exit (CPUID)",
            Self::Gap => "gap in a running loop",
            Self::Stolen => "stolen at once",
            Self::PipeOneCpu => "pipe round trip, one CPU",
            Self::PipeAcrossCpus => "pipe round trip, two CPUs",
            Self::Echo => "echo from the peer",
        }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is of.
    pub kind: FigureKind,
    /// Its landmarks, ns.
    pub ns: Landmarks,
    /// Histogram of the samples: (lower edge, ns; samples), empty bins left
    /// out. A bin reaches 2.2 % (a 32nd of a doubling) above its lower edge.
    pub histogram: Vec<(f64, u64)>,
}

/// A distribution's landmarks, to its tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Landmarks {
    /// Smallest: the floor.
    pub min: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 9 of 10 are at most this.
    pub p90: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1000 are at most this.
    pub p99_9: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Samples.
    pub samples: u64,
}

impl Landmarks {
    /// Of these samples; nothing of none.
    pub fn from_samples(samples: &Distribution) -> Option<Self> {
        let spread = samples.spread()?;
        Some(Self {
            min: spread.min,
            p50: spread.median,
            p90: samples.quantile(0.9)?,
            p99: spread.p99,
            p99_9: samples.quantile(0.999)?,
            max: spread.max,
            mean: samples.mean(),
            samples: samples.samples(),
        })
    }
}

/// One delay beyond a figure's floor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// The figure that it is a sample of.
    pub kind: FigureKind,
    /// When it ended, ns since the start of the run.
    pub at_ns: u64,
    /// How long, ns.
    pub ns: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// Why.
    pub cause: LatenessCause,
}

/// Gaps too short to be looked into one by one, by what their CPUs served
/// meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortGaps {
    /// Why.
    pub cause: LatenessCause,
    /// How many.
    pub gaps: u64,
    /// All of them together, ns.
    pub total_ns: u64,
}

/// The delays of one figure that one cause explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The cause.
    pub cause: LatenessCause,
    /// The figure.
    pub kind: FigureKind,
    /// Delays.
    pub delays: u64,
    /// All of them together, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// The delays by figure and cause, the most time first.
pub fn shares(delays: &[Delay]) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for delay in delays {
        let same = |share: &&mut Share| (share.cause, share.kind) == (delay.cause, delay.kind);
        match shares.iter_mut().find(same) {
            Some(share) => {
                share.delays += 1;
                share.total_ns = share.total_ns.saturating_add(delay.ns);
                share.longest_ns = share.longest_ns.max(delay.ns);
            }
            None => shares.push(Share {
                cause: delay.cause,
                kind: delay.kind,
                delays: 1,
                total_ns: delay.ns,
                longest_ns: delay.ns,
            }),
        }
    }
    shares.sort_by_key(|share| std::cmp::Reverse(share.total_ns));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_by_figure_and_cause() {
        let delay = |kind, ns, cause| Delay { kind, at_ns: 0, ns, cpu: 0, cause };
        let found = shares(&[
            delay(FigureKind::Gap, 5, LatenessCause::RunQueue),
            delay(FigureKind::Gap, 100, LatenessCause::Stolen),
            delay(FigureKind::Gap, 7, LatenessCause::RunQueue),
            delay(FigureKind::TimerWakeUp, 1, LatenessCause::RunQueue),
        ]);
        let seen: Vec<_> = found.iter().map(|s| (s.cause, s.delays, s.total_ns)).collect();
        let expected = [
            (LatenessCause::Stolen, 1, 100),
            (LatenessCause::RunQueue, 2, 12),
            (LatenessCause::RunQueue, 1, 1),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found[1].longest_ns, 7);
    }

    #[test]
    fn a_figure_without_samples_says_so() {
        let mut found = Latency::default();
        found.add_figure(FigureKind::Ipi, &Distribution::new());
        assert!(found.figures.is_empty());
        assert_eq!(found.not_measured[0].what, "IPI (membarrier)");
        let mut samples = Distribution::new();
        (1..=1000).for_each(|us| samples.record(f64::from(us) * 1e3));
        found.add_figure(FigureKind::PipeOneCpu, &samples);
        let ns = found.figures[0].ns;
        assert_eq!((ns.min, ns.max, ns.samples), (1e3, 1e6, 1000));
        assert!((ns.p99_9 / 999e3 - 1.0).abs() < 0.002, "{ns:?}");
        assert!((ns.mean / 500.5e3 - 1.0).abs() < 0.002, "{ns:?}");
        let index = found.loops_per_s(FigureKind::PipeOneCpu).map(unixbench_index);
        assert!(index.is_some_and(|index| (index - 4.995).abs() < 0.02), "{index:?}");
    }
}
