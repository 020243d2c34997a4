//! What this machine is and does: whether others leave it alone, its control groups, and the
//! settings that are put back.

use std::fs;
use std::path::{Path, PathBuf};

/// Threads that may run beside those of a case, by /proc/loadavg.
const OTHERS_MAX: u32 = 1;

/// Why a run that needs a quiet machine does not count.
pub(crate) fn busy(own: u32) -> Result<(), String> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let runnable = running(&text).ok_or("busy: /proc/loadavg has no running threads")?;
    if runnable > own + OTHERS_MAX {
        return Err(format!("busy: {runnable} threads run, {own} of them the case's"));
    }
    Ok(())
}

/// The fourth figure: `3/512` (proc_loadavg(5)).
fn running(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// A control group with a quota; it goes with this.
pub(crate) struct QuotaGroup {
    pub(crate) folder: PathBuf,
}

impl QuotaGroup {
    /// So many µs in each period of 20 ms, or no limit.
    pub(crate) fn create(quota_us: Option<u32>) -> Result<Self, String> {
        const PERIOD_US: u32 = 20_000;
        let name = format!("parachron-latency-{}", std::process::id());
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_second = second.join("cgroup.controllers").exists();
        let folder = if is_second { second } else { first }.join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if is_second {
            let children = second.join("cgroup.subtree_control");
            fs::write(children, "+cpu").map_err(failed)?;
        }
        fs::create_dir(&folder).map_err(failed)?;
        let group = Self { folder: folder.clone() };
        let set = |file: &str, value: String| fs::write(folder.join(file), value).map_err(failed);
        if is_second {
            let quota = quota_us.map_or("max".to_owned(), |quota| quota.to_string());
            set("cpu.max", format!("{quota} {PERIOD_US}"))?;
        } else {
            set("cpu.cfs_period_us", PERIOD_US.to_string())?;
            set("cpu.cfs_quota_us", quota_us.map_or("-1".to_owned(), |quota| quota.to_string()))?;
        }
        Ok(group)
    }

    /// How long it was throttled, ns.
    pub(crate) fn throttled_ns(&self) -> u64 {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        facts::running::parse_throttled(&stat)
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // Its processes have ended, so that it is empty.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The state of a process: `R` runs or could, `S` sleeps, `T` is stopped (proc_pid_stat(5)).
pub(crate) fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    state_in(&stat)
}

/// Behind the name, which may have any character.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Loopback's packets served on one CPU (Documentation/networking/scaling.rst), put back
/// when this goes.
pub(crate) struct SteeredLoopback {
    before: String,
}

impl SteeredLoopback {
    const FILE: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

    pub(crate) fn to_cpu(cpu: u32) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", Self::FILE);
        let before = fs::read_to_string(Self::FILE).map_err(failed)?;
        fs::write(Self::FILE, format!("{:x}", 1_u64 << cpu)).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for SteeredLoopback {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, self.before.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_behind_the_name() {
        assert_eq!(state_in("7 (a) b) T 1 7"), Some('T'));
        assert_eq!(state_in("7"), None);
        // The thread that reads it runs; the harness's first one sleeps.
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(state(thread.unsigned_abs()), Some('R'));
    }

    #[test]
    fn running_threads_are_the_fourth_figure() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running("0.20 0.18"), None);
    }
}
