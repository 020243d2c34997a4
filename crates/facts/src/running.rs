//! The kernel's counts: time stolen from the CPUs, switches and interrupts, and
//! one thread's time on a CPU and waiting for one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Fact, Unknown};

const STAT: &str = "/proc/stat";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// ns in a tick of `/proc/stat`: USER_HZ is always 100 for programs.
const TICK_NS: u64 = 10_000_000;

/// Index of the stolen time in a CPU's line, from 0
/// (`man 5 proc_stat`).
const STEAL: usize = 7;

/// Counts of all CPUs since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Activity {
    /// Time stolen by the host while a CPU was runnable, ns, in steps of 10 ms.
    pub stolen: Vec<Stolen>,
    /// Context switches.
    pub context_switches: u64,
    /// Interrupts served.
    pub interrupts: u64,
}

/// Time stolen from one CPU since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stolen {
    /// Which CPU.
    pub cpu: u32,
    /// How much, ns.
    pub stolen_ns: u64,
}

/// A thread's scheduling since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadTimes {
    /// Time on a CPU, ns.
    pub ran_ns: u64,
    /// Time runnable, waiting for a CPU, ns.
    pub waited_ns: u64,
    /// Number of times on a CPU.
    pub turns: u64,
}

/// `/proc/stat`.
pub fn parse_stat(text: &str) -> Fact<Activity> {
    let malformed = || Unknown::malformed(STAT, "cpu, intr and ctxt lines", text);
    let number = |word: Option<&str>| word?.parse::<u64>().ok();
    let mut activity = Activity::default();
    let (mut switches, mut interrupts) = (None, None);
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        match name {
            "ctxt" => switches = number(Some(rest.trim())),
            "intr" => interrupts = number(rest.split_ascii_whitespace().next()),
            _ => activity.stolen.extend(stolen(name, rest)),
        }
    }
    match (switches, interrupts) {
        (Some(context_switches), Some(interrupts)) if !activity.stolen.is_empty() => {
            Fact::Known(Activity { context_switches, interrupts, ..activity })
        }
        _ => Fact::Unknown(malformed()),
    }
}

/// From the line of one CPU; the line `cpu` is the sum of all.
fn stolen(name: &str, rest: &str) -> Option<Stolen> {
    let cpu = name.strip_prefix("cpu")?.parse().ok()?;
    let ticks: u64 = rest.split_ascii_whitespace().nth(STEAL)?.parse().ok()?;
    Some(Stolen { cpu, stolen_ns: ticks.checked_mul(TICK_NS)? })
}

/// `/proc/thread-self/schedstat`: all zeroes on a kernel that does not count.
pub fn parse_schedstat(text: &str) -> Fact<ThreadTimes> {
    let malformed = || Unknown::malformed(SCHEDSTAT, "three numbers", text);
    let numbers: Option<Vec<u64>> =
        text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([0, 0, 0]) => {
            let why =
                "this kernel does not count how long threads wait for a CPU (CONFIG_SCHEDSTATS)";
            Fact::Unknown(Unknown::not_applicable(why))
        }
        Some(&[ran_ns, waited_ns, turns]) => Fact::Known(ThreadTimes { ran_ns, waited_ns, turns }),
        _ => Fact::Unknown(malformed()),
    }
}

/// `cpu.stat` of a control group: how long it was throttled, ns. Version 1 has
/// `throttled_time` in ns, version 2 `throttled_usec`; a group without a quota,
/// or the root, may have neither, and was never throttled.
pub fn parse_throttled(text: &str) -> u64 {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let microseconds = value("throttled_usec").map(|us| us.saturating_mul(1000));
    value("throttled_time").or(microseconds).unwrap_or(0)
}

/// The most nested control groups looked at.
const GROUPS: usize = 8;

/// `/proc/self/cgroup`: the `cpu.stat` files of the groups that may throttle
/// this process, its own first, then those around it (`man 7 cgroups`).
pub fn throttling_files(text: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let root = match controllers {
            "" => "/sys/fs/cgroup".to_owned(),
            names if names.split(',').any(|name| name == "cpu") => {
                format!("/sys/fs/cgroup/{names}")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        for _ in 0..GROUPS {
            files.push(format!("{root}{path}/cpu.stat"));
            match path.rfind('/') {
                Some(parent) => path = &path[..parent],
                None => break,
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_throttle_are_found_in_both_versions() {
        let text = "9:name=systemd:/\n2:cpu,cpuacct:/a/b\n1:cpuset:/x\n0::/user.slice\nbroken\n";
        assert_eq!(
            throttling_files(text),
            [
                "/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
                "/sys/fs/cgroup/user.slice/cpu.stat",
                "/sys/fs/cgroup/cpu.stat",
            ]
        );
        assert_eq!(parse_throttled("nr_throttled 3\nthrottled_time 7000\n"), 7000);
        assert_eq!(parse_throttled("usage_usec 1\nthrottled_usec 7\n"), 7000);
        assert_eq!(parse_throttled("throttled_usec x\n"), 0);
    }

    #[test]
    fn stolen_time_is_read_cpu_by_cpu() {
        let text = "cpu  10 0 20 300 1 0 2 7 0 0\ncpu0 5 0 10 150 1 0 1 4 0 0\n\
                    cpu1 5 0 10 150 0 0 1 3 0 0\nintr 9876 1 2 3\nctxt 5432\nbtime 1700000000\n";
        let stolen = |cpu, ms: u64| Stolen { cpu, stolen_ns: ms * 1_000_000 };
        assert_eq!(
            parse_stat(text),
            Fact::Known(Activity {
                stolen: vec![stolen(0, 40), stolen(1, 30)],
                context_switches: 5432,
                interrupts: 9876,
            })
        );
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        for text in ["", "cpu0 1 2 3\n", "cpu0 5 0 10 150 1 0 1 4\nctxt 1\n", "intr x\nctxt 5\n"] {
            assert!(parse_stat(text).unknown().is_some(), "{text:?}");
        }
        let times = ThreadTimes { ran_ns: 5, waited_ns: 6, turns: 7 };
        assert_eq!(parse_schedstat("5 6 7\n"), Fact::Known(times));
        let off = parse_schedstat("0 0 0\n");
        assert!(matches!(off, Fact::Unknown(Unknown::NotApplicable { .. })), "{off:?}");
        assert!(parse_schedstat("1 2\n").unknown().is_some());
    }
}
