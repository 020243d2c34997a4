//! What `parachron latency` takes: a whole run's time and memory, and of a CPU while it only
//! sleeps and wakes, outside the parts that are busy on purpose.

pub(crate) mod beside;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use facts::running::parse_schedstat;
use instruments::latency::Latency;

use crate::{judge, release_build};

const WHOLE_S: f64 = 30.0;
const MEMORY_MB: f64 = 16.0;
const CALM_PERCENT: f64 = 5.0;
/// As long as the program runs by default: seven thousand wake-ups and more on a busy system.
const CALM_RUN: &str = "20s";
/// Beside this much of one CPU's time for others, a figure beyond the bar is not the program's:
/// they displace its caches.
const OTHERS_PERCENT_MAX: f64 = 10.0;
/// A tick of /proc/stat (USER_HZ), s.
const TICK_S: f64 = 0.01;
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(50);
/// Its timer wakes up this often, ns.
const INTERVAL_NS: f64 = 1e6;

/// A run, seen from outside.
struct Seen {
    over_s: f64,
    /// The most that was resident.
    peak_mb: f64,
    /// CPU time of the thread that slept most often, ns.
    sleeper_ns: f64,
    /// What others took meanwhile, the host included, % of one CPU.
    others_percent: f64,
    report: Latency,
}

/// Whether a bar is met; load only adds, so that a figure within it is met beside any.
#[derive(Debug, PartialEq)]
enum Calm {
    Met,
    NotMet,
    Busy,
}

impl Calm {
    fn judge(percent: f64, others_percent: f64) -> Self {
        if percent <= CALM_PERCENT {
            Self::Met
        } else if others_percent > OTHERS_PERCENT_MAX && percent <= 3.0 * CALM_PERCENT {
            // Load alone has not cost more than that.
            Self::Busy
        } else {
            Self::NotMet
        }
    }
}

/// Whether every bar is met.
pub(crate) fn run() -> Result<bool, String> {
    let whole = seen(&[])?;
    let met = judge("latency, a whole run", whole.over_s, WHOLE_S, " s")
        & judge("its memory", whole.peak_mb, MEMORY_MB, " MB");
    // In turns with a CPU kept awake, by a thread of its own.
    let calm = seen(&["--only", "timer-wake-up", "--duration", CALM_RUN])?;
    let wake_ups: u64 = calm.report.figures.iter().map(|figure| figure.ns.samples).sum();
    if wake_ups == 0 {
        return Err("no timer woke up".into());
    }
    let percent = calm.sleeper_ns / wake_ups as f64 / INTERVAL_NS * 100.0;
    println!("{wake_ups} wake-ups, {:.1} µs of CPU each", calm.sleeper_ns / wake_ups as f64 / 1e3);
    let others = calm.others_percent;
    println!("others took {others:.0} % of one CPU");
    if Calm::judge(percent, others) == Calm::Busy {
        println!(
            "not measured: busy: {percent:.1} % of one CPU outside its bursts, beside {others:.0} % of others"
        );
        return Ok(met);
    }
    Ok(met & judge("outside its bursts, of one CPU", percent, CALM_PERCENT, " %"))
}

fn seen(arguments: &[&str]) -> Result<Seen, String> {
    let failed = |error: std::io::Error| format!("latency: {error}");
    let output = tempfile::NamedTempFile::new().map_err(failed)?;
    let program = release_build::parachron()?;
    let (started, busy_before) = (Instant::now(), busy_s()?);
    let mut process = Command::new(program)
        .args(["latency", "--format", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.reopen().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let (mut peak_mb, mut sleeper_ns) = (0.0_f64, 0.0);
    let status = loop {
        if let Some(status) = process.try_wait().map_err(failed)? {
            break status;
        }
        peak_mb = peak_mb.max(peak_kb(process.id()).unwrap_or(0.0) / 1024.0);
        sleeper_ns = sleeper_cpu_ns(process.id()).unwrap_or(sleeper_ns);
        std::thread::sleep(LOOK);
    };
    let over_s = started.elapsed().as_secs_f64();
    let busy_s = busy_s()? - busy_before;
    let text = fs::read_to_string(output.path()).map_err(failed)?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("latency, {status}: {error}"))?;
    let report = serde_json::from_value(report["latency"].clone());
    let report: Latency = report.map_err(|error| format!("latency: {error}"))?;
    let others_percent = (busy_s - report.used_cpu_s).max(0.0) / over_s * 100.0;
    Ok(Seen { over_s, peak_mb, sleeper_ns, others_percent, report })
}

/// What all CPUs were busy for since boot, or stolen, s.
fn busy_s() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    busy_ticks(&text).map(|ticks| ticks as f64 * TICK_S).ok_or(format!("/proc/stat: {text:?}"))
}

/// The first line (proc_stat(5)): of user, nice, system, idle, iowait, irq, softirq and steal,
/// all but idle and iowait.
fn busy_ticks(stat: &str) -> Option<u64> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

fn peak_kb(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Of the thread that was on a CPU most often.
fn sleeper_cpu_ns(process: u32) -> Option<f64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let times = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let times = parse_schedstat(&text);
        times.value().copied()
    });
    times.max_by_key(|times| times.turns).map(|times| times.ran_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_is_the_bar_and_only_others_excuse_more() {
        assert_eq!(Calm::judge(5.0, 0.0), Calm::Met);
        assert_eq!(Calm::judge(5.0, 190.0), Calm::Met, "load only adds");
        assert_eq!(Calm::judge(5.01, 10.0), Calm::NotMet);
        assert_eq!(Calm::judge(5.01, 10.1), Calm::Busy);
    }

    #[test]
    fn a_cpu_is_busy_unless_it_is_idle() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(87_600_321));
        assert_eq!(busy_ticks("cpu  1 20 300"), None);
        assert_eq!(busy_ticks("cpu0 1 1 1 1 1 1 1 1"), None);
    }
}
