//! What the scheduler counted, asked again and again.

use std::path::Path;

use crate::again::Again;
use facts::Fact;
use facts::running::{Activity, ThreadTimes, parse_schedstat, parse_stat};

const STAT: &str = "/proc/stat";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// A line a CPU and a line of interrupts, which grows with the machine.
const STAT_BYTES: usize = 256 << 10;
const SCHEDSTAT_BYTES: usize = 128;

/// Both answers.
#[derive(Debug)]
pub struct Scheduling {
    stat: Fact<Again>,
    schedstat: Fact<Again>,
    buffer: Vec<u8>,
}

impl Scheduling {
    /// Of the thread that calls this.
    pub fn of_this_thread() -> Self {
        Self {
            stat: Again::open(Path::new(STAT)),
            schedstat: Again::open(Path::new(SCHEDSTAT)),
            buffer: Vec::new(),
        }
    }

    /// How that thread fared so far.
    pub fn thread(&self) -> Fact<ThreadTimes> {
        let file = match &self.schedstat {
            Fact::Known(file) => file,
            Fact::Unknown(why) => return Fact::Unknown(why.clone()),
        };
        let mut bytes = [0; SCHEDSTAT_BYTES];
        file.read(&mut bytes)
            .and_then(|length| parse_schedstat(&String::from_utf8_lossy(&bytes[..length])))
    }

    /// What all CPUs did so far. The kernel adds up every interrupt of every
    /// CPU for this: on a large machine not a thing to ask at each look.
    pub fn activity(&mut self) -> Fact<Activity> {
        let file = match &self.stat {
            Fact::Known(file) => file,
            Fact::Unknown(why) => return Fact::Unknown(why.clone()),
        };
        self.buffer.resize(STAT_BYTES, 0);
        let buffer = &mut self.buffer;
        file.read(buffer).and_then(|length| parse_stat(&String::from_utf8_lossy(&buffer[..length])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_worked_has_run() {
        let scheduling = Scheduling::of_this_thread();
        let ran = || scheduling.thread().map(|times| times.ran_ns);
        let (first, _) = (ran(), std::hint::black_box((0..5_000_000u64).sum::<u64>()));
        match (first, ran()) {
            (Fact::Known(first), Fact::Known(second)) => assert!(second > first),
            (_, Fact::Unknown(why)) => crate::skipped(&why.to_string()),
            (first, second) => panic!("{first:?} then {second:?}"),
        }
    }

    #[test]
    fn a_machine_that_answers_has_switched_and_interrupted() {
        let activity = Scheduling::of_this_thread().activity();
        let is_alive =
            |it: &Activity| it.context_switches > 0 && it.interrupts > 0 && !it.stolen.is_empty();
        assert!(activity.is_known_and(is_alive), "{activity:?}");
    }
}
