//! The simulator's regression beside chronyd, after whose published idea it is written:
//! chronyd itself under clknetsim (github.com/mlichvar/clknetsim, GPL-2+, not part of
//! this repository), with an oscillator and a network of the same laws. Its random
//! figures are its own, so fleets are compared, not runs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use simulator::{Fleet, Look, ScenarioCorrector, Simulation, file};

/// Runs of each.
const SEEDS: u64 = 20;
/// A run, and its first part, which is left out: to find the frequency takes a while.
const RUN_S: u64 = 86_400;
const SETTLED_S: u64 = 14_400;
/// By how much the two may differ.
const WITHIN: f64 = 0.25;

/// Oscillators and networks: Allan deviations at 1 s of white noise and of the walk, the
/// delay each way and the mean wait in its queues, s.
const CONDITIONS: [(&str, [f64; 4]); 3] = [
    ("a server's crystal, 10 ms away", [1e-9, 1e-11, 5e-3, 3e-4]),
    ("a crystal that wanders, 10 ms away", [1e-9, 3e-10, 5e-3, 3e-4]),
    ("a crystal that wanders, in a rack", [1e-9, 3e-10, 1e-4, 2e-5]),
];

/// Root mean squares, after it has settled.
#[derive(Debug, Default, Clone, Copy)]
struct Rms {
    offset_s: f64,
    frequency: f64,
}

/// Of all runs.
fn pooled(runs: &[Rms]) -> Rms {
    let of = |figure: fn(&Rms) -> f64| {
        (runs.iter().map(|run| figure(run).powi(2)).sum::<f64>() / runs.len() as f64).sqrt()
    };
    Rms { offset_s: of(|run| run.offset_s), frequency: of(|run| run.frequency) }
}

/// The folder of a built clknetsim.
fn folder() -> Result<PathBuf, String> {
    std::env::var_os("CLKNETSIM_PATH").map(PathBuf::from).ok_or_else(|| {
        "SKIPPED: CLKNETSIM_PATH names no folder; try: git clone \
         https://github.com/mlichvar/clknetsim, make, and chronyd on PATH"
            .into()
    })
}

/// Days of a chronyd, beside its server, that clknetsim simulates in a minute: two at a time.
pub(crate) fn clknetsim_rate() -> Result<f64, String> {
    const DAYS: u64 = 10;
    let clknetsim = folder()?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let half = |first: u64| {
            let run = |seed| chronyd(&clknetsim, CONDITIONS[0].1, seed).map(|_| ());
            scope.spawn(move || (first..=DAYS).step_by(2).try_for_each(run))
        };
        let halves = [half(1), half(2)];
        halves.into_iter().try_for_each(|half| half.join().expect("it does not panic"))
    })?;
    Ok(DAYS as f64 / begun.elapsed().as_secs_f64() * 60.0)
}

/// Runs it; whether all figures are within the bar.
pub(crate) fn run() -> Result<bool, String> {
    let clknetsim = folder()?;
    let mut met = true;
    for (name, conditions) in CONDITIONS {
        let theirs = (1..=SEEDS).map(|seed| chronyd(&clknetsim, conditions, seed));
        let theirs = pooled(&theirs.collect::<Result<Vec<_>, _>>()?);
        let ours =
            pooled(&(1..=SEEDS).map(|seed| ours(conditions, seed)).collect::<Result<Vec<_>, _>>()?);
        println!("{name}: rms of {SEEDS} runs of a day, without its first 4 h");
        for (program, rms) in [("chronyd", theirs), ("regression", ours)] {
            let (us, ppb) = (rms.offset_s * 1e6, rms.frequency * 1e9);
            println!("  {program:<12} offset {us:8.2} µs   frequency {ppb:8.1} ppb");
        }
        for (what, ours, theirs) in [
            ("  offset, beside chronyd's", ours.offset_s, theirs.offset_s),
            ("  frequency, beside chronyd's", ours.frequency, theirs.frequency),
        ] {
            met &= super::judge(what, (ours / theirs - 1.0).abs(), WITHIN, "");
        }
    }
    Ok(met)
}

/// The regression in the simulator. Between two looks the clock is a line.
fn ours([white, walk, delay_s, wait_s]: [f64; 4], seed: u64) -> Result<Rms, String> {
    let text = format!(
        "name = 'beside chronyd'\n\
         [host.oscillator]\n\
         white = {white}\nflicker = 0.0\nwalk = {walk}\ntemperature_ppm = 0.0\nageing_ppm_a_day = 0.0\n\
         [[server]]\ndelay_ms = {}\njitter_ms = {}\nloss = 0.0\nroot_ms = 0.0\n",
        delay_s * 2e3,
        wait_s * 1e3,
    );
    let scenario = file::read(&text).map_err(|why| format!("{why:?}"))?;
    let span_ns = scenario.check(1, RUN_S as f64 / 86_400.0).map_err(|why| why.to_string())?;
    let (mut squares, mut slopes, mut seconds) = (0.0, 0.0, 0.0);
    let mut last: Option<Look> = None;
    let mut watch = |look: Look| {
        if let Some(before) = last.filter(|it| it.at_ns >= SETTLED_S as i64 * 1_000_000_000) {
            let [from_s, to_s] = [before.error_ns, look.error_ns].map(|ns| ns as f64 * 1e-9);
            let for_s = (look.at_ns - before.at_ns) as f64 * 1e-9;
            squares += for_s * (from_s * from_s + from_s * to_s + to_s * to_s) / 3.0;
            if for_s > 0.0 {
                slopes += (to_s - from_s).powi(2) / for_s;
            }
            seconds += for_s;
        }
        last = Some(look);
    };
    let simulation = Simulation::new(&scenario, ScenarioCorrector::Regression, seed, span_ns);
    simulation.guest(0, &[], &mut Fleet::new(), Some(&mut watch));
    Ok(Rms { offset_s: (squares / seconds).sqrt(), frequency: (slopes / seconds).sqrt() })
}

/// chronyd as a client of another one with a perfect clock.
fn chronyd(
    clknetsim: &Path,
    [white, walk, delay_s, wait_s]: [f64; 4],
    seed: u64,
) -> Result<Rms, String> {
    let failed = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
    let folder = tempfile::tempdir().map_err(|why| failed("a folder", &why))?;
    let path = |name: &str| folder.path().join(name);
    let write =
        |name: &str, text: &str| std::fs::write(path(name), text).map_err(|why| failed(name, &why));
    let way = format!("(+ {delay_s} (* {wait_s} (exponential)))");
    // A walk's frequency moves by √3 of its Allan deviation at 1 s in each second.
    let step = walk * 3_f64.sqrt();
    write(
        "conf",
        &format!(
            "node1_delay2 = {way}\nnode2_delay1 = {way}\n\
             node2_freq = (+ 2e-6 (sum (* {step} (normal))) (* {white} (normal)))\n"
        ),
    )?;
    let daemons =
        ["local stratum 1\nallow\n", "server 192.168.123.1 minpoll 6 maxpoll 6\nmakestep 1 3\n"];
    let mut running: Vec<Child> = Vec::new();
    for (node, settings) in (1..).zip(daemons) {
        let pid = path(&format!("pid.{node}"));
        let conf = format!("conf.{node}");
        let bind = "bindcmdaddress /clknetsim/unix/chronyd.sock";
        write(&conf, &format!("pidfile {}\n{bind}\n{settings}", pid.display()))?;
        let mut daemon = Command::new("chronyd");
        daemon.args(["-u", "root", "-F", "0", "-d", "-f"]).arg(path(&conf));
        daemon.env("LD_PRELOAD", clknetsim.join("clknetsim.so"));
        daemon.env("CLKNETSIM_NODE", node.to_string()).env("CLKNETSIM_SOCKET", path("socket"));
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        running.push(daemon.spawn().map_err(|why| failed("SKIPPED: chronyd on PATH", &why))?);
    }
    let mut server = Command::new(clknetsim.join("clknetsim"));
    server.env("CLKNETSIM_RANDOM_SEED", seed.to_string()).arg("-s").arg(path("socket"));
    server.args(["-l", &RUN_S.to_string(), "-r", &SETTLED_S.to_string()]);
    let told = server.arg(path("conf")).arg("2").output();
    for daemon in &mut running {
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
    let told = told.map_err(|why| failed("SKIPPED: clknetsim", &why))?;
    let text = String::from_utf8_lossy(&told.stdout);
    let client = text.split("Node 2").nth(1).unwrap_or_default();
    let figure = |name: &str| {
        let line = client.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|figure| figure.trim().parse::<f64>().ok())
            .ok_or_else(|| format!("clknetsim told no {name:?}: {text}"))
    };
    Ok(Rms { offset_s: figure("RMS offset:")?, frequency: figure("RMS frequency:")? })
}
