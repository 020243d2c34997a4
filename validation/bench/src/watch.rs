//! What `parachron watch` costs while nothing happens, here and with many CPUs.
//!
//! Of `/proc/stat` two parts grow with the number of CPUs: that the kernel
//! writes it, and that watch reads it. The second is measured on made files; the
//! first on the machine at hand, and the sampler holds the two together to an
//! 8000th of a CPU by reading less often (`inspect::sampler`).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use facts::running::{parse_schedstat, parse_stat};
use linux::reread::Reread;

use crate::judge;
use crate::release_build;
use crate::rounds::{self, Contender};

/// All of watch, of one CPU.
const BAR_PERCENT: f64 = 0.1;

/// Start-up, and the TSC's rate measured.
const SETTLES: Duration = Duration::from_secs(2);

/// At most so often `/proc/stat` is read, s.
const STAT_PERIOD_S: f64 = 0.9;

const ROUNDS: u32 = 20;

/// Measures for `duration`; whether every bar is met.
pub(crate) fn run(duration: Duration) -> Result<bool, String> {
    let mut watch = Command::new(release_build::parachron()?)
        .args(["watch"])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("watch: {error}"))?;
    let used = used_while(&watch, duration);
    let _ = watch.kill();
    let _ = watch.wait();
    let used = used?;
    println!(
        "watch over {:.0} s: {:.1} wake-ups a second, {:.0} µs each",
        used.over_s,
        used.turns / used.over_s,
        used.ran_s / used.turns * 1e6
    );
    let here = used.ran_s / used.over_s * 100.0;
    let mut met = judge("watch, of one CPU", here, BAR_PERCENT, " %");
    let made: Vec<(u32, f64)> = [64, 256].into_iter().zip(readings()?).collect();
    for (cpus, took_ns) in made {
        let more = took_ns / 1e9 / STAT_PERIOD_S * 100.0;
        let what = format!("the same, and to read {cpus} CPUs");
        met &= judge(&what, here + more, BAR_PERCENT, " %");
    }
    Ok(met)
}

struct Used {
    over_s: f64,
    ran_s: f64,
    turns: f64,
}

fn used_while(watch: &Child, duration: Duration) -> Result<Used, String> {
    std::thread::sleep(SETTLES);
    let (begun, before) = (Instant::now(), times(watch.id())?);
    std::thread::sleep(duration);
    let (over_s, after) = (begun.elapsed().as_secs_f64(), times(watch.id())?);
    let (ran_ns, turns) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    Ok(Used { over_s, ran_s: ran_ns as f64 / 1e9, turns: turns.max(1) as f64 })
}

/// Time on a CPU of all threads, ns, and how often they were on one.
fn times(process: u32) -> Result<(u64, u64), String> {
    let folder = format!("/proc/{process}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let (mut ran_ns, mut turns) = (0, 0);
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat"));
        let text = text.map_err(|error| format!("{folder}: {error}"))?;
        let times = parse_schedstat(&text);
        let times = times.value().ok_or_else(|| format!("{folder}: no schedstat"))?;
        (ran_ns, turns) = (ran_ns + times.ran_ns, turns + times.turns);
    }
    Ok((ran_ns, turns))
}

/// ns to read and parse `/proc/stat` of 64 and of 256 CPUs as the sampler does,
/// each beside a reading of `/proc/uptime`.
fn readings() -> Result<[f64; 2], String> {
    let open =
        |path: &Path| Reread::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let files = [made_stat(64)?, made_stat(256)?];
    let (uptime, here) = (open(Path::new("/proc/uptime"))?, open(Path::new("/proc/stat"))?);
    let [few, many] = [open(files[0].path())?, open(files[1].path())?];
    let parsed = |file: Reread| {
        let mut buffer = vec![0; 256 << 10];
        move || {
            let length = file.read(&mut buffer).unwrap_or_default();
            parse_stat(&String::from_utf8_lossy(&buffer[..length]))
        }
    };
    let mut bytes = [0; 64];
    let mut contenders = [
        Contender::new("/proc/uptime, read", || uptime.read(&mut bytes).ok()),
        Contender::new("/proc/stat of this machine, by its kernel", parsed(here)),
        Contender::new("a made one of 64 CPUs", parsed(few)),
        Contender::new("a made one of 256 CPUs", parsed(many)),
    ];
    rounds::run(&mut contenders, ROUNDS);
    let least_ns = contenders.each_ref().map(Contender::min_ns);
    for (contender, ns) in contenders.iter().zip(least_ns) {
        println!("{:<46} {:>9.1} µs  {:>6.1} × uptime", contender.name, ns / 1e3, ns / least_ns[0]);
    }
    Ok([least_ns[2], least_ns[3]])
}

/// As the kernel writes it for so many CPUs, with 24 interrupts for each.
fn made_stat(cpus: u32) -> Result<tempfile::NamedTempFile, String> {
    let times = "123456789 2345 34567890 4567890123 56789 0 678901";
    let lines: String = (0..cpus).map(|cpu| format!("cpu{cpu} {times} {cpu} 0 0\n")).collect();
    let interrupts: String = (0..cpus * 24).map(|line| format!(" {}", line % 7 * 1234)).collect();
    let text = format!(
        "cpu  {times} 99 0 0\n{lines}intr 987654321{interrupts}\nctxt 5432\nbtime 1700000000\n"
    );
    let made = tempfile::NamedTempFile::new().and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        Ok(file)
    });
    made.map_err(|error| format!("a temporary file: {error}"))
}
