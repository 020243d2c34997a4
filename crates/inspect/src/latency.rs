//! How late this machine runs programs: timers, wake-ups, interrupts, exits, pipes and a peer,
//! measured by `instruments::latency`'s definitions.
//!
//! | figure | how | CPU it takes |
//! | --- | --- | --- |
//! | timer wake-ups | absolute sleeps 1 ms apart, in turns with the CPU kept awake and with the inherited slack | the awake turns: one CPU |
//! | wake-up across CPUs | an eventfd, written 2000 times a second at most | little |
//! | IPI | membarrier against a spinning thread | two CPUs |
//! | exit | CPUID, on x86 | one CPU |
//! | pipes | two processes | two CPUs |
//! | echo | a request at a time | little |

mod echo;
#[cfg_attr(not(target_arch = "x86_64"), path = "latency/exits_elsewhere.rs")]
mod exits;
mod pairs;
mod run;
mod timers;

use std::process::Command;
use std::time::{Duration, Instant};

use facts::running::{parse_throttled, throttling_files};
use facts::system::{CpuTime, STAT, parse_cpu_time};
use instruments::distribution::Distribution;
use instruments::latency::{CpuShares, FigureKind, Latency};
use linux::clock::LinuxClock;
use linux::cpus::{Pinned, pin};

use crate::pipe_pair::PipePair;

pub use echo::EchoPeer;
pub use run::measure;

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct LatencyPlan {
    /// The whole run, but for its start and end.
    pub duration: Duration,
    /// The process at the other end of the pipes, which runs
    /// [`echo`](crate::pipe_pair::echo).
    pub echo: fn() -> Command,
    /// Whom to send messages to.
    pub peer: Option<EchoPeer>,
    /// The CPU for what needs one, and its partner; by default the last two
    /// that are allowed.
    pub cpus: Option<(u32, u32)>,
    /// Figures to measure; all, where none is named.
    pub only: Vec<FigureKind>,
}

impl LatencyPlan {
    /// Whether one of these is wanted.
    fn wants(&self, kinds: &[FigureKind]) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| kinds.contains(only))
    }
}

/// A run in progress: what the probes share.
struct LatencyRun<'p> {
    plan: &'p LatencyPlan,
    started: Instant,
    progress: &'p dyn Fn(&str),
    /// CPUs allowed when the run began.
    cpus: Vec<u32>,
    found: Latency,
}

impl LatencyRun<'_> {
    /// A part of the whole duration: what is wanted divides it by these shares.
    fn part(&self, share: f64) -> Duration {
        self.plan.duration.mul_f64(share / run::wanted_shares(self.plan))
    }

    /// This thread on `cpu`, or the reason why `what` is not measured.
    fn pinned(&mut self, what: &str, cpu: u32) -> Option<Pinned> {
        pin(cpu).map_err(|error| self.found.miss(what, error.to_string())).ok()
    }

    fn doing(&self, what: &str) {
        (self.progress)(what);
    }

    /// The CPU for what needs one, and another where there is one.
    fn pair(&self) -> Option<(u32, Option<u32>)> {
        if let Some((one, other)) = self.plan.cpus {
            return Some((one, Some(other).filter(|other| *other != one)));
        }
        // The first CPU serves most devices' interrupts.
        let mut last = self.cpus.iter().rev();
        Some((*last.next()?, last.next().copied()))
    }
}

/// CLOCK_MONOTONIC, ns.
fn now_ns() -> u64 {
    // Linux always has it.
    LinuxClock::Monotonic.read_ns().unwrap_or_default()
}

/// Round trips, timed one by one, with the partner on CPU `there`.
fn measure_pipes(
    run: &mut LatencyRun<'_>,
    kind: FigureKind,
    (here, there): (u32, u32),
    length: Duration,
) {
    run.doing(kind.name());
    // A process starts where its parent may run.
    let pair = pin(there)
        .map_err(|error| error.to_string())
        .and_then(|_pinned| PipePair::start((run.plan.echo)()).map_err(|error| error.to_string()));
    let mut samples = Distribution::new();
    let timed = pair.and_then(|mut pair| {
        let _pinned = pin(here).map_err(|error| error.to_string())?;
        // The first trip waits for the partner's start.
        pair.pass().map_err(|error| error.to_string())?;
        let ends = Instant::now() + length;
        while Instant::now() < ends {
            let sent = now_ns();
            pair.pass().map_err(|error| error.to_string())?;
            samples.record(now_ns().saturating_sub(sent) as f64);
        }
        Ok(())
    });
    match timed {
        Ok(()) => run.found.add_figure(kind, &samples),
        Err(why) => run.found.miss(kind.name(), why),
    }
}

// What became of the CPUs while latency was measured: stolen, idle, throttled.

const OWN_GROUPS: &str = "/proc/self/cgroup";

/// The kernel's counts at one time.
struct CpuTimes {
    all: Option<CpuTime>,
    throttled_ns: Option<u64>,
}

impl CpuTimes {
    /// As they are now; what this machine lacks is left out.
    fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).ok();
        let groups = throttling_files(&text(OWN_GROUPS).unwrap_or_default());
        let throttled = groups.iter().filter_map(|path| text(path));
        let sum = |sum: Option<u64>, text: String| {
            Some(sum.unwrap_or(0).saturating_add(parse_throttled(&text)))
        };
        Self {
            all: text(STAT).and_then(|text| parse_cpu_time(&text).value().copied()),
            throttled_ns: throttled.fold(None, sum),
        }
    }

    /// What happened since `before`, `over_s` s ago.
    fn shares_since(&self, before: &Self, over_s: f64) -> CpuShares {
        let all = self.all.zip(before.all);
        let throttled = self.throttled_ns.zip(before.throttled_ns);
        CpuShares {
            stolen: all.and_then(|(now, then)| now.stolen_since(then, over_s)),
            idle: all.and_then(|(now, then)| now.idle_since(then, over_s)),
            throttled_ns: throttled.map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_all_cpus_time() {
        let times = |stolen, idle, throttled_ns| CpuTimes {
            all: Some(CpuTime { stolen, idle, total: 0, cpus: 2 }),
            throttled_ns,
        };
        let shares = times(30, 250, Some(9)).shares_since(&times(20, 150, Some(4)), 1.0);
        let expected = CpuShares { stolen: Some(0.05), idle: Some(0.5), throttled_ns: Some(5) };
        assert_eq!(shares, expected);
        let shares = times(30, 250, None).shares_since(&times(20, 150, Some(4)), 0.0);
        assert_eq!(shares, CpuShares::default(), "no time passed, and no group has a quota");
    }
}
