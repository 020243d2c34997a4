//! How late programs run: timers, wake-ups, exits, pipes and a peer, each with its
//! percentiles, and what became of the CPUs meanwhile.

pub mod echo;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::measurements::NotMeasured;
use echo::EchoReplies;

/// What was measured of lateness in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Length of the run, s.
    pub over_s: f64,
    /// Each figure, in the order measured.
    pub figures: Vec<Figure>,
    /// What became of the CPUs during the run.
    pub cpus: CpuShares,
    /// What the peer answered, where one was named.
    pub answers: Option<EchoReplies>,
    /// CPU time this measurement used, s.
    pub used_cpu_s: f64,
    /// What could not be measured.
    pub not_measured: Vec<NotMeasured>,
}

/// What became of the CPUs during a run, as parts of all their time, 0 to 1. A kernel that does
/// not count one of them leaves it out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// Stolen by the host, by `/proc/stat`, in steps of 10 ms.
    pub stolen: Option<f64>,
    /// Idle, by `/proc/stat`. A CPU that idles sleeps, and has to wake first.
    pub idle: Option<f64>,
    /// How long a quota of this process's control groups kept it from running, by `cpu.stat`, ns.
    pub throttled_ns: Option<u64>,
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

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
