//! How long a thread was kept waiting for a CPU, as Linux has measured it: a
//! vCPU's is its steal time (`record_steal_time`, arch/x86/kvm/x86.c).

use std::time::{Duration, Instant};

use pvclock::Nanos;

/// This thread's: time on a CPU, time waited for one, both ns, and turns
/// (Documentation/scheduler/sched-stats.rst).
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Reading a file takes microseconds, and steal is a matter of milliseconds.
pub const EACH: Duration = Duration::from_millis(10);

/// What the calling thread has waited since it began; nothing where this
/// kernel does not tell.
pub fn of_this_thread() -> Option<Nanos> {
    waited(&std::fs::read_to_string(SCHEDSTAT).ok()?)
}

fn waited(schedstat: &str) -> Option<Nanos> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// Looks now and then: at once, and then each [`EACH`].
#[derive(Debug, Default)]
pub(crate) struct StealMeter {
    looked: Option<Instant>,
}

impl StealMeter {
    /// What the calling thread has waited, where it is time to look again.
    pub(crate) fn look(&mut self) -> Option<Nanos> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < EACH) {
            return None;
        }
        self.looked = Some(now);
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
