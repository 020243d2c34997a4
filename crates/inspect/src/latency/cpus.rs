//! What became of the CPUs while latency was measured: stolen, idle, throttled.

use facts::running::{parse_throttled, throttling_files};
use facts::system::{CpuTime, STAT, parse_cpu_time};
use instruments::latency::CpuShares;

const OWN_GROUPS: &str = "/proc/self/cgroup";

/// The kernel's counts at one time.
pub(super) struct CpuTimes {
    all: Option<CpuTime>,
    throttled_ns: Option<u64>,
}

impl CpuTimes {
    /// As they are now; what this machine lacks is left out.
    pub(super) fn read() -> Self {
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
    pub(super) fn shares_since(&self, before: &Self, over_s: f64) -> CpuShares {
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
