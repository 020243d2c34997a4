//! How long a thread waited for a CPU, as measured by Linux: for a vCPU this is
//! its steal time (`record_steal_time`, arch/x86/kvm/x86.c).

use std::time::Duration;

use linux::clock::LinuxClock;
use pvclock::Nanos;

/// Of this thread: time on a CPU, time waited for one, both ns, and timeslices
/// (Documentation/scheduler/sched-stats.rst).
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// The sampling period: reading the file takes microseconds, and steal is a
/// matter of milliseconds.
pub const EACH: Duration = Duration::from_millis(10);

/// The time that the calling thread has waited since it started; `None` where
/// this kernel does not report it.
pub fn of_this_thread() -> Option<Nanos> {
    waited(&std::fs::read_to_string(SCHEDSTAT).ok()?)
}

fn waited(schedstat: &str) -> Option<Nanos> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// Samples at once, and then every [`EACH`].
#[derive(Debug, Default)]
pub(crate) struct StealMeter {
    sampled_ns: Option<u64>,
}

impl StealMeter {
    /// The time that the calling thread has waited, if a sample is due.
    pub(crate) fn sample(&mut self) -> Option<Nanos> {
        // Asked at each entry: the coarse clock costs a load, and 4 ms are exact enough.
        let now_ns = LinuxClock::MonotonicCoarse.read_ns()?;
        let since_ns = self.sampled_ns.map(|sampled| now_ns.saturating_sub(sampled));
        if since_ns.is_some_and(|since| u128::from(since) < EACH.as_nanos()) {
            return None;
        }
        self.sampled_ns = Some(now_ns);
        of_this_thread()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(waited("848030 1732437 3\n"), Some(Nanos(1_732_437)));
        assert_eq!(waited("848030"), None);
        assert_eq!(waited("848030 -1 3"), None);
        assert_eq!(waited(""), None);
    }
}
