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

mod cpus;
mod echo;
#[cfg_attr(not(target_arch = "x86_64"), path = "latency/exits_elsewhere.rs")]
mod exits;
mod pairs;
mod pipes;
mod run;
mod timers;

use std::process::Command;
use std::time::{Duration, Instant};

use instruments::latency::{FigureKind, Latency};
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
