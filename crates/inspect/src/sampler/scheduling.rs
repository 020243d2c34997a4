//! What the scheduler counts.

use std::path::Path;

use facts::Fact;
use facts::running::{Activity, ThreadTimes, parse_schedstat, parse_stat};
use linux::reread::Reread;

const STAT: &str = "/proc/stat";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// A line for each CPU, and one of interrupts that grows with the machine.
const STAT_BYTES: usize = 256 << 10;
const SCHEDSTAT_BYTES: usize = 128;

/// What all CPUs did since boot.
#[derive(Debug)]
pub(super) struct CpuActivity {
    stat: Reread,
    buffer: Vec<u8>,
}

impl CpuActivity {
    pub(super) fn open() -> Fact<Self> {
        let buffer = vec![0; STAT_BYTES];
        crate::fact_of(STAT, Reread::open(Path::new(STAT))).map(|stat| Self { stat, buffer })
    }

    pub(super) fn read(&mut self) -> Fact<Activity> {
        let length = crate::fact_of(STAT, self.stat.read(&mut self.buffer));
        length.and_then(|length| parse_stat(&String::from_utf8_lossy(&self.buffer[..length])))
    }
}

/// The scheduling of the thread that opened it.
#[derive(Debug)]
pub(super) struct ThreadSchedule(Reread);

impl ThreadSchedule {
    pub(super) fn open() -> Fact<Self> {
        crate::fact_of(SCHEDSTAT, Reread::open(Path::new(SCHEDSTAT))).map(Self)
    }

    pub(super) fn read(&self) -> Fact<ThreadTimes> {
        let mut bytes = [0; SCHEDSTAT_BYTES];
        let length = crate::fact_of(SCHEDSTAT, self.0.read(&mut bytes));
        length.and_then(|length| parse_schedstat(&String::from_utf8_lossy(&bytes[..length])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_worked_has_run() {
        let schedule = ThreadSchedule::open();
        let ran = || match &schedule {
            Fact::Known(schedule) => schedule.read().map(|times| times.ran_ns),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        };
        let (first, _) = (ran(), std::hint::black_box((0..5_000_000u64).sum::<u64>()));
        match (first, ran()) {
            (Fact::Known(first), Fact::Known(second)) => assert!(second > first),
            (_, Fact::Unknown(why)) => crate::skipped(&why.to_string()),
            (first, second) => panic!("{first:?} then {second:?}"),
        }
    }

    #[test]
    fn a_running_machine_has_switched_and_interrupted() {
        let activity = CpuActivity::open().and_then(|mut stat| stat.read());
        let is_alive =
            |it: &Activity| it.context_switches > 0 && it.interrupts > 0 && !it.stolen.is_empty();
        assert!(activity.is_known_and(is_alive), "{activity:?}");
    }
}
