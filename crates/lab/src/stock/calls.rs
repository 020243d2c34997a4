//! Where programs of the kernel read its clock: calls of clock_gettime that entered the
//! kernel, counted by its own tracepoint (Linux: Documentation/trace/events.rst) while this
//! program reads.

use std::fs;
use std::io;
use std::path::Path;

use linux::clock::LinuxClock;
use serde::{Deserialize, Serialize};

const TRACING: &str = "/sys/kernel/tracing";
/// It is there with CONFIG_FTRACE_SYSCALLS.
const ENTERED: &str = "events/syscalls/sys_enter_clock_gettime";
/// CLOCK_MONOTONIC.
const FILTER: &str = "which_clock == 1";
const READS: u64 = 2_000;
/// What the kernel has of them, and what no longer fitted into its buffer.
const COUNTED: [&str; 3] = ["entries", "overrun", "dropped events"];
/// ENODEV (mount(2)).
const NO_SUCH_KIND: i32 = 19;

/// Of a clock that is read in user space at most this part of the reads is counted, of
/// another one each, and hardly more.
const NONE: f64 = 0.01;
const EACH: (f64, f64) = (0.99, 1.1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallCount {
    pub(super) reads: u64,
    /// Those that entered the kernel.
    pub(super) calls: u64,
}

/// Reads the clock, and counts; nothing where the kernel counts no calls.
pub(super) fn count() -> io::Result<Option<CallCount>> {
    // A kernel without tracefs knows no such file system.
    match linux::init::mount_tracing(Path::new(TRACING)) {
        Err(why) if why.raw_os_error() == Some(NO_SUCH_KIND) => return Ok(None),
        mounted => mounted?,
    }
    let event = Path::new(TRACING).join(ENTERED);
    if !event.exists() {
        return Ok(None);
    }
    fs::write(event.join("filter"), FILTER)?;
    fs::write(event.join("enable"), "1")?;
    for _ in 0..READS {
        LinuxClock::Monotonic.read_ns();
    }
    fs::write(event.join("enable"), "0")?;
    let mut calls = 0;
    for cpu in fs::read_dir(Path::new(TRACING).join("per_cpu"))? {
        calls += sum_counts(&fs::read_to_string(cpu?.path().join("stats"))?);
    }
    Ok(Some(CallCount { reads: READS, calls }))
}

/// Of a CPU: `entries: 12`.
fn sum_counts(stats: &str) -> u64 {
    let figures = stats.lines().filter_map(|line| line.split_once(": "));
    let wanted = figures.filter(|(name, _)| COUNTED.contains(name));
    wanted.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

impl CallCount {
    pub(super) fn calls_per_read(self) -> f64 {
        self.calls as f64 / self.reads.max(1) as f64
    }

    /// Whether the clock is read where it has to be.
    pub(super) fn is_right(self, in_user_space: bool) -> bool {
        let calls = self.calls_per_read();
        let is_each = (EACH.0..=EACH.1).contains(&calls);
        self.reads > 0 && if in_user_space { calls <= NONE } else { is_each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_a_call_or_none() {
        let right = |calls, in_user_space| CallCount { reads: 1000, calls }.is_right(in_user_space);
        assert!(right(0, true) && right(10, true) && right(1000, false));
        assert!(!right(1000, true), "by the kernel, as with vdso=0");
        assert!(!right(0, false) && !right(900, false), "not each is a call");
        assert!(!right(1200, false), "or more than one");
        assert!(!CallCount { reads: 0, calls: 0 }.is_right(true), "nothing was read");
    }

    #[test]
    fn what_was_lost_is_counted_too() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 0\nbytes: 576\n\
                     oldest event ts:     4.5\ndropped events: 1\nread events: 0\n";
        assert_eq!(sum_counts(stats), 16);
    }
}
