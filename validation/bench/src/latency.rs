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
    report: Latency,
}

/// Whether every bar is met.
pub(crate) fn run() -> Result<bool, String> {
    let whole = seen(&[])?;
    let met = judge("latency, a whole run", whole.over_s, WHOLE_S, " s")
        & judge("its memory", whole.peak_mb, MEMORY_MB, " MB");
    // In turns with a CPU kept awake, by a thread of its own.
    let calm = seen(&["--only", "timer-wake-up", "--duration", "5s"])?;
    let wake_ups: u64 = calm.report.figures.iter().map(|figure| figure.ns.samples).sum();
    if wake_ups == 0 {
        return Err("no timer woke up".into());
    }
    let percent = calm.sleeper_ns / wake_ups as f64 / INTERVAL_NS * 100.0;
    println!("{wake_ups} wake-ups, {:.1} µs of CPU each", calm.sleeper_ns / wake_ups as f64 / 1e3);
    Ok(met & judge("outside its bursts, of one CPU", percent, CALM_PERCENT, " %"))
}

fn seen(arguments: &[&str]) -> Result<Seen, String> {
    let failed = |error: std::io::Error| format!("latency: {error}");
    let output = tempfile::NamedTempFile::new().map_err(failed)?;
    let program = release_build::parachron()?;
    let started = Instant::now();
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
    let text = fs::read_to_string(output.path()).map_err(failed)?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("latency, {status}: {error}"))?;
    let report = serde_json::from_value(report["latency"].clone());
    let report = report.map_err(|error| format!("latency: {error}"))?;
    Ok(Seen { over_s, peak_mb, sleeper_ns, report })
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
