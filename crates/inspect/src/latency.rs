//! Who is late on this machine: timers, wake-ups, interrupts, exits, gaps,
//! pipes and a peer, measured by `instruments::latency`'s definitions.
//!
//! | figure | how | CPU it takes |
//! | --- | --- | --- |
//! | timer wake-ups | absolute sleeps 1 ms apart, in turns with the CPU kept awake and with the inherited slack | the awake turns: one CPU |
//! | wake-up across CPUs | an eventfd, written 2000 times a second at most | little |
//! | IPI | membarrier against a spinning thread | two CPUs |
//! | exit | CPUID, on x86 | one CPU |
//! | gaps | a loop on one CPU after the other that reads the CPU's counter | one CPU |
//! | pipes | two processes | two CPUs |
//! | sweep | sleeps of 10 µs to 2 ms | little |
//! | echo | a request at a time | little |

mod counters;
mod echo;
#[cfg_attr(not(target_arch = "x86_64"), path = "latency/exits_elsewhere.rs")]
mod exits;
mod pairs;
mod pipes;
mod run;
mod spin;
mod timers;

use std::process::Command;
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::{Delay, FigureKind, Latency};
use linux::clock::LinuxClock;
use linux::cpus::{Pinned, pin};

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
    /// Delays beyond what is kept are dropped, the shortest first.
    delays: Vec<Delay>,
}

/// Delays kept of each run.
const KEPT: usize = 400;

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

    /// ns since the start.
    fn at_ns(&self) -> u64 {
        since_ns(self.started)
    }

    fn delayed(&mut self, delays: impl IntoIterator<Item = Delay>) {
        self.delays.extend(delays);
        if self.delays.len() > 2 * KEPT {
            self.forget_shortest();
        }
    }

    fn forget_shortest(&mut self) {
        self.delays.sort_by_key(|delay| std::cmp::Reverse(delay.ns));
        self.delays.truncate(KEPT);
        self.delays.sort_by_key(|delay| delay.at_ns);
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

fn since_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC, ns.
fn now_ns() -> u64 {
    // Linux always has it.
    LinuxClock::Monotonic.read_ns().unwrap_or_default()
}

/// A delay of a figure is looked into where it is beyond this, ns, and beyond
/// twice the median so far: below lies what no one can act on.
const NOTABLE_NS: u64 = 20_000;

/// Whether `ns` is in the tail of these samples.
fn is_tail(samples: &Distribution, ns: u64) -> bool {
    // The median is looked up in the histogram, which takes microseconds.
    ns >= NOTABLE_NS && samples.quantile(0.5).is_none_or(|median| ns as f64 >= 2.0 * median)
}
