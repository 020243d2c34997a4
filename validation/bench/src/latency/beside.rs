//! `parachron latency` beside cyclictest: the same wake-ups, in turns, idle and loaded.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use instruments::latency::{FigureKind, Latency};

use crate::{release_build, rounds};

/// Wake-ups of each a round, and rounds: 10,000 of each in all.
const WAKE_UPS: u64 = 1_000;
const ROUNDS: u32 = 10;

/// By how much a landmark may differ.
const WITHIN: f64 = 0.10;

/// The real-time priority of both: without one, cyclictest has its timer slack.
const PRIORITY: &str = "50";

/// cyclictest's histogram reaches this far, µs: what is later counts as this.
const LONGEST_US: &str = "20000";

/// Half of a run's wake-ups are plain ones, 1 ms apart.
const OURS: &str = "2s";

/// Delays as (from, to, how many), µs, in ascending order.
type Bins = Vec<(f64, f64, u64)>;

/// The landmarks that are compared.
const LANDMARKS: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// Whether p50 and p99 agree in both states.
pub(crate) fn run() -> Result<bool, String> {
    let program = release_build::parachron()?;
    let cpu = *linux::cpus::allowed()
        .map_err(|error| error.to_string())?
        .last()
        .ok_or("no CPU is allowed")?;
    let mut met = true;
    for loops in [0, 2] {
        let (ours, theirs) = beside_loops(loops, || in_turns(&program, cpu))?;
        let state = if loops == 0 { "idle" } else { "loaded" };
        let [our_count, their_count] =
            [&ours, &theirs].map(|rounds| rounds.iter().map(samples).sum::<u64>());
        println!("{state}: {loops} busy loops of ours, load {}", load());
        println!("  parachron latency {our_count} wake-ups, cyclictest {their_count}");
        for (name, quantile) in LANDMARKS {
            let [our_us, their_us] = [&ours, &theirs].map(|rounds| median_us(rounds, quantile));
            let apart = our_us / their_us - 1.0;
            println!(
                "  {name}: {our_us:.1} and {their_us:.1} µs, {:+.1} %, at most {:.0} %: {}",
                apart * 100.0,
                WITHIN * 100.0,
                if apart.abs() <= WITHIN { "met" } else { "NOT MET" }
            );
            met &= apart.abs() <= WITHIN;
        }
    }
    Ok(met)
}

/// Both, in turns; of each, the rounds.
fn in_turns(program: &Path, cpu: u32) -> Result<(Vec<Bins>, Vec<Bins>), String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Who begins changes, so that what follows something favours neither.
        if round % 2 == 0 {
            ours.push(our_run(program, cpu)?);
            theirs.push(their_run(cpu)?);
        } else {
            theirs.push(their_run(cpu)?);
            ours.push(our_run(program, cpu)?);
        }
    }
    Ok((ours, theirs))
}

fn our_run(program: &Path, cpu: u32) -> Result<Bins, String> {
    let mut command = Command::new("chrt");
    command.args(["--fifo", PRIORITY, "taskset", "-c", &cpu.to_string()]);
    command.arg(program);
    command.args(["latency", "--only", "timer-wake-up", "--duration", OURS, "--format", "json"]);
    let text = output(&mut command)?;
    let report = serde_json::from_str::<serde_json::Value>(&text)
        .and_then(|report| serde_json::from_value::<Latency>(report["latency"].clone()))
        .map_err(|error| format!("latency: {error}"))?;
    let figure = report.figure(FigureKind::TimerWakeUp).ok_or("latency: no timer woke up")?;
    // A bin is a 32nd of a doubling.
    let bin = |&(from_ns, count): &(f64, u64)| {
        (from_ns / 1e3, from_ns / 1e3 * 2_f64.powf(1.0 / 32.0), count)
    };
    Ok(figure.histogram.iter().map(bin).collect())
}

fn their_run(cpu: u32) -> Result<Bins, String> {
    let mut command = Command::new("cyclictest");
    let [cpu, loops] = [u64::from(cpu), WAKE_UPS].map(|figure| figure.to_string());
    command.args(["--quiet", "--default-system", "-t1", "-i1000", "-h", LONGEST_US]);
    command.args(["-p", PRIORITY, "-a", &cpu, "-l", &loops]);
    Ok(their_bins(&output(&mut command)?))
}

/// Lines `000021 000345`: whole µs, rounded down, and how many. Delays beyond the histogram are
/// in `# Histogram Overflows: 00002`.
fn their_bins(text: &str) -> Bins {
    let overflows = text.lines().find_map(|line| line.strip_prefix("# Histogram Overflows:"));
    let overflows = overflows.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    let longest: f64 = LONGEST_US.parse().unwrap_or(f64::NAN);
    let bins = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (us, count) = line.split_once(char::is_whitespace)?;
        let (us, count) = (us.parse::<f64>().ok()?, count.trim().parse::<u64>().ok()?);
        (count > 0).then_some((us, us + 1.0, count))
    });
    bins.chain((overflows > 0).then_some((longest, longest, overflows))).collect()
}

fn samples(bins: &Bins) -> u64 {
    bins.iter().map(|bin| bin.2).sum()
}

/// The median over the rounds: what the host does in one of them would move a landmark of all
/// wake-ups together.
fn median_us(rounds: &[Bins], quantile: f64) -> f64 {
    let of_round = |bins: &Bins| landmark(bins, quantile).unwrap_or(f64::NAN);
    rounds::median(rounds.iter().map(of_round).collect())
}

/// Within its bin a delay may be anywhere.
fn landmark(bins: &Bins, quantile: f64) -> Option<f64> {
    let mut rest = samples(bins) as f64 * quantile;
    bins.iter().find_map(|&(from, to, count)| {
        let count = count as f64;
        if rest <= count {
            return Some(from + (to - from) * rest / count);
        }
        rest -= count;
        None
    })
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("SKIPPED: {program} on PATH: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{program}: {}: {why}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `work` while some threads of usual priority never sleep.
fn beside_loops<T>(loops: usize, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// The load average of the last minute, ours included.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("not known").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_of_cyclictest_has_landmarks() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000019 000000\n000020 000098\n\
                    000030 000001\n# Total: 000000099\n# Histogram Overflows: 00001\n";
        let bins = their_bins(text);
        assert_eq!(bins, [(20.0, 21.0, 98), (30.0, 31.0, 1), (20000.0, 20000.0, 1)]);
        assert_eq!(samples(&bins), 100);
        let p50 = landmark(&bins, 0.5).expect("samples");
        assert!((p50 - (20.0 + 50.0 / 98.0)).abs() < 1e-9, "{p50}");
        assert_eq!(landmark(&bins, 0.99), Some(31.0));
        assert_eq!(landmark(&bins, 1.0), Some(20000.0));
        assert_eq!(landmark(&Bins::new(), 0.5), None);
        let round = |us: f64| vec![(us, us + 1.0, 100)];
        let rounds = [round(900.0), round(20.0), round(21.0)];
        assert!((median_us(&rounds, 0.5) - 21.5).abs() < 1e-9, "one round is late by the host");
    }
}
