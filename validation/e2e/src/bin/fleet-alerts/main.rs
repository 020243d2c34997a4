//! A real Prometheus scrapes daemons in network namespaces; faults are caused, and the
//! alert rules that ship are to fire for these nodes, and for no other:
//!
//! ```sh
//! cargo xtask alerts [--minutes N] [--into FILE]
//! ```
//!
//! All runs in a user namespace, in which nobody may set the clock (`capable(CAP_SYS_TIME)`
//! asks the first one, kernel/time/time.c), and a PID namespace, so nothing outlives it. It
//! takes half an hour, as a rule waits 20 minutes. Exit code 1 where an alert failed to
//! come, came unexpectedly, or a scrape or daemon costs more than its bar.

mod cost;
mod faults;
mod namespaces;
mod node;
mod prometheus;
mod servers;
mod verdict;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::Need;

use cost::of_process;
use faults::{FAULTS, Faulty};
use namespaces::{enter, make};
use node::Node;
use prometheus::{EACH_S, Prometheus};
use servers::Servers;
use verdict::{Costs, Verdict};

/// What it cannot do without.
const NEEDS: [Need; 3] = [Need::Tool("prometheus"), Need::Tool("unshare"), Need::Tool("ip")];
/// Before the faults, in which nothing may fire.
const QUIET: Duration = Duration::from_secs(5 * 60);
/// What a start costs is over then.
const SETTLED: Duration = Duration::from_secs(60);
/// A fault that is one again and again.
const AGAIN: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let missing: Vec<String> = NEEDS.iter().filter_map(|need| need.missing()).collect();
    if !missing.is_empty() {
        eprintln!("skipped: no alert was tried: {}", missing.join(", "));
        return ExitCode::SUCCESS;
    }
    let ran = match words.split_first() {
        Some((first, rest)) if first == "inside" => inside(rest),
        _ => outside(&words),
    };
    ran.unwrap_or_else(|error| {
        eprintln!("fleet-alerts: {error}");
        ExitCode::from(2)
    })
}

/// In namespaces of its own, if this machine lets it.
fn outside(words: &[String]) -> io::Result<ExitCode> {
    let tried =
        Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).output()?;
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        eprintln!("skipped: no alert was tried: no namespaces ({why})");
        return Ok(ExitCode::SUCCESS);
    }
    let status = enter(&[&["inside".to_owned()], words].concat())?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

fn inside(words: &[String]) -> io::Result<ExitCode> {
    let value = |name: &str| words.iter().skip_while(|word| *word != name).nth(1);
    let minutes = value("--minutes").map_or(Ok(25), |it| it.parse()).map_err(io::Error::other)?;
    let programs = match value("--programs") {
        Some(folder) => PathBuf::from(folder).canonicalize()?,
        None => std::env::current_exe()?.with_file_name(""),
    };
    let (verdict, costs) = watch(&programs, Duration::from_secs(60 * minutes))?;
    let wrong = [verdict.wrong(), costs.wrong()].concat();
    let mut result = verdict.result(minutes);
    result["costs"] = costs.result();
    result["wrong"] = wrong.clone().into();
    match value("--into") {
        None => println!("{result:#}"),
        Some(path) => std::fs::write(path, format!("{result:#}\n"))?,
    }
    wrong.iter().for_each(|line| eprintln!("{line}"));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the fleet: quiet at first, then each node's fault for so long.
fn watch(programs: &Path, length: Duration) -> io::Result<(Verdict, Costs)> {
    let folder = tempfile::tempdir()?;
    let faults: Vec<_> =
        FAULTS.iter().flat_map(|fault| std::iter::repeat_n(fault, fault.nodes)).collect();
    // One more, which is not scraped: what a daemon costs without.
    make(faults.len() + 1)?;
    let servers = Servers::start()?;
    let start = |at, kind| Node::start(at, kind, programs, folder.path());
    let faulty = faults.iter().enumerate();
    let faulty = faulty.map(|(at, fault)| Ok(Faulty { fault, node: start(at, fault.kind)? }));
    let mut nodes = faulty.collect::<io::Result<Vec<_>>>()?;
    let mut alone = start(nodes.len(), FAULTS[0].kind)?;
    let rules =
        Command::new(programs.join("parachron")).args(["export", "--print", "rules"]).output()?;
    let targets: Vec<String> = nodes.iter().map(|faulty| faulty.node.target()).collect();
    let rules = String::from_utf8_lossy(&rules.stdout);
    let prometheus = Prometheus::start(folder.path(), &targets, &rules)?;
    // What a start costs is no scrape's.
    sleep(SETTLED);
    for node in nodes.iter_mut().map(|faulty| &mut faulty.node).chain([&mut alone]) {
        if let Some(status) = node.daemon.try_wait()? {
            return Err(io::Error::other(format!("{status}: {}", node.log())));
        }
    }
    let cost = |nodes: &[Faulty]| -> Vec<_> {
        let nodes = nodes.iter().map(|faulty| &faulty.node).chain([&alone]);
        nodes.map(|node| of_process(node.daemon.id())).collect()
    };
    let (before, begun) = (cost(&nodes), Instant::now());
    sleep(QUIET - SETTLED);
    let early = prometheus.fired()?;
    let since_s = now_s();
    let turns = length.as_secs() / AGAIN.as_secs();
    for turn in 0..turns {
        for Faulty { fault, node } in &mut nodes {
            if turn == 0 || fault.is_repeated {
                (fault.cause)(node, &servers, turn)?;
            }
        }
        sleep(AGAIN);
        eprintln!("{} of {} minutes", (turn + 1) * AGAIN.as_secs() / 60, length.as_secs() / 60);
    }
    let firing = prometheus.fired()?;
    let scrapes = begun.elapsed().as_secs_f64() / EACH_S as f64;
    let costs = Costs::of(&nodes, (&before, &cost(&nodes)), scrapes, &prometheus)?;
    Ok((Verdict::of(&nodes, &early, &firing, since_s), costs))
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
