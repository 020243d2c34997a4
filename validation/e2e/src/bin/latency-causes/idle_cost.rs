//! What leaving idle costs, measured without the code that is on trial: relative sleeps of
//! `std`, in turns with and without a thread that keeps the CPU awake.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use facts::running::parse_schedstat;
use instruments::latency::proof::{IDLE_EXIT_NS, IDLE_EXIT_TIMES};
use linux::cpus::pin;
use linux::scheduling::{set_timer_slack_ns, yield_to_all};

/// Rounds before a run, and as many after it.
pub(crate) const ROUNDS: usize = 6;

/// Sleeps of a round on an idle CPU, and as many on one kept awake.
const SLEEPS: usize = 20;
const SLEEP: Duration = Duration::from_millis(1);

/// One round: medians, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    asleep_ns: f64,
    awake_ns: f64,
}

/// Between which limits the median cost is, µs, and what a wake-up without it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IdleCost {
    pub(crate) low_us: f64,
    pub(crate) high_us: f64,
    pub(crate) awake_us: f64,
}

impl IdleCost {
    /// The second least and the second greatest of 12 differences, which have the median between
    /// them with a probability of 1 - 2 (1 + 12) / 2^12 = 99.4 %, whatever the distribution.
    pub(crate) fn from_rounds(rounds: &[Round]) -> Option<Self> {
        let mut costs: Vec<f64> =
            rounds.iter().map(|round| round.asleep_ns - round.awake_ns).collect();
        costs.sort_by(f64::total_cmp);
        let mut awake: Vec<f64> = rounds.iter().map(|round| round.awake_ns).collect();
        Some(Self {
            low_us: costs.get(1)? / 1e3,
            high_us: costs.get(costs.len().checked_sub(2)?)? / 1e3,
            awake_us: median(&mut awake)? / 1e3,
        })
    }

    /// From where on the program has to name the cause, µs.
    fn limit_us(&self) -> f64 {
        (IDLE_EXIT_NS / 1e3).max(self.awake_us * (IDLE_EXIT_TIMES - 1.0))
    }

    /// An error where the cost is below the program's limit, or, with its own error, may be.
    pub(crate) fn forced(&self) -> Result<(), String> {
        let limit_us = self.limit_us();
        if self.low_us >= limit_us {
            return Ok(());
        }
        let relation = if self.high_us < limit_us { "below" } else { "around" };
        Err(format!("not forced: {self}, {relation} the limit of {limit_us:.1} µs"))
    }
}

impl fmt::Display for IdleCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaving idle costs {:.1} to {:.1} µs", self.low_us, self.high_us)
    }
}

/// Some rounds on one CPU.
pub(crate) fn rounds(cpu: u32) -> Result<Vec<Round>, String> {
    let _pinned = pin(cpu).map_err(|error| format!("CPU {cpu}: {error}"))?;
    set_timer_slack_ns(std::num::NonZeroU64::MIN)
        .map_err(|error| format!("timer slack: {error}"))?;
    (0..ROUNDS)
        .map(|_| Ok(Round { asleep_ns: late_ns()?, awake_ns: beside_lowest(cpu, late_ns)?? }))
        .collect()
}

/// How late some sleeps ended, at the median: of those after which the thread did not wait for
/// another one, for up to three times as many.
fn late_ns() -> Result<f64, String> {
    let mut late_ns = Vec::new();
    let mut before = waited_ns()?;
    for _ in 0..3 * SLEEPS {
        let started = Instant::now();
        std::thread::sleep(SLEEP);
        let late = started.elapsed().saturating_sub(SLEEP).as_nanos() as f64;
        let after = waited_ns()?;
        if after.saturating_sub(before) as f64 * 4.0 < late {
            late_ns.push(late);
        }
        before = after;
        if late_ns.len() == SLEEPS {
            break;
        }
    }
    median(&mut late_ns).ok_or_else(|| "busy: each sleep ended behind another thread".to_owned())
}

/// What this thread has waited for a CPU, by the kernel's count.
fn waited_ns() -> Result<u64, String> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let times = parse_schedstat(&text);
    times.value().map(|times| times.waited_ns).ok_or_else(|| format!("{FILE}: {text:?}"))
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Set when it goes, by a panic as well: the scope waits for the thread that spins.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `work` while a thread that yields to all others keeps a CPU from idling.
pub(crate) fn beside_lowest<T>(cpu: u32, work: impl FnOnce() -> T) -> Result<T, String> {
    let over = AtomicBool::new(false);
    let (reports, reported) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = pin(cpu);
            let yields = yield_to_all();
            let spins = yields.is_ok();
            let _ = reports.send(yields);
            while spins && !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let yields = reported.recv().map_err(|error| error.to_string());
        let done = yields.and_then(|yields| yields.map_err(|error| format!("SCHED_IDLE: {error}")));
        let _over = SetAtEnd(&over);
        done.map(|()| work())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(costs_us: [f64; 12], awake_us: f64) -> IdleCost {
        let round =
            |cost: f64| Round { asleep_ns: (awake_us + cost) * 1e3, awake_ns: awake_us * 1e3 };
        IdleCost::from_rounds(&costs_us.map(round)).expect("twelve rounds")
    }

    #[test]
    fn the_limit_of_the_program_decides_with_the_error_of_the_rounds() {
        let judged = |low, high, awake_us| {
            let mut costs = [(low + high) / 2.0; 12];
            // One outlier on each side is not the median's.
            (costs[0], costs[1], costs[10], costs[11]) = (high, 90.0, -90.0, low);
            cost(costs, awake_us).forced().map_err(|why| why.replace("not forced: ", ""))
        };
        let error = |text: &str| Err(format!("leaving idle costs {text}"));
        assert_eq!(judged(5.0, 7.0, 8.0), Ok(()));
        assert_eq!(judged(4.9, 7.0, 8.0), error("4.9 to 7.0 µs, around the limit of 5.0 µs"));
        assert_eq!(judged(3.0, 4.9, 8.0), error("3.0 to 4.9 µs, below the limit of 5.0 µs"));
        assert_eq!(judged(5.5, 7.0, 20.0), error("5.5 to 7.0 µs, around the limit of 6.0 µs"));
        assert_eq!(judged(5.0, 5.9, 20.0), error("5.0 to 5.9 µs, below the limit of 6.0 µs"));
        assert_eq!(IdleCost::from_rounds(&[]), None);
    }
}
