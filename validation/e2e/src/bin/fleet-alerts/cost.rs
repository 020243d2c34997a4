//! What a process has cost.

use std::fs;

/// Since it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// CPU time of all its threads, of those too that have ended, ms.
    pub(crate) cpu_ms: f64,
    /// The most memory that it had at a time, MiB.
    pub(crate) most_mib: f64,
}

/// Of a process that runs, by /proc.
pub(crate) fn of_process(id: u32) -> Option<Cost> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let most_kib: f64 = most.split_whitespace().next()?.parse().ok()?;
    Some(Cost { cpu_ms: cpu_ms(&stat)?, most_mib: most_kib / 1024.0 })
}

/// Fields 14 and 15 of `man 5 proc_pid_stat`, after a name that may hold anything: in
/// hundredths (USER_HZ).
fn cpu_ms(stat: &str) -> Option<f64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_costs_time_and_memory() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 25 5 0 0 20 0 3 0 9";
        assert_eq!(cpu_ms(stat), Some(300.0));
        assert_eq!(cpu_ms("7 (a)"), None);
        assert!(of_process(std::process::id()).is_some_and(|cost| cost.most_mib > 1.0));
        assert_eq!(of_process(u32::MAX), None);
    }
}
