//! `cargo xtask long`: everything that takes too long for CI, a run after another, each with a
//! result as data in validation/results/runs, and then the page of all results. A run that has
//! passed at this commit is not repeated, so what was stopped resumes where it was.

mod runs;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde_json::{Value, json};

use crate::counts::Reader;
pub(crate) use crate::long::runs::RUNS;
use crate::long::runs::Run;
use crate::outside;
use crate::project::Project;
use crate::validation;

/// Where the results are, a file a run.
const RESULTS: &str = "validation/results/runs";

/// How many of a run's last lines its result keeps.
const LAST_LINES: usize = 12;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List the runs and their latest results, and exit
    #[arg(long)]
    list: bool,
    /// Only these runs, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "RUNS")]
    only: Vec<String>,
    /// Repeat runs that have passed at this commit
    #[arg(long)]
    again: bool,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    if let Some(unknown) = args.only.iter().find(|name| RUNS.iter().all(|run| run.name != **name)) {
        eprintln!("long: there is no run {unknown}; --list shows all");
        return ExitCode::from(2);
    }
    if args.list {
        for run in RUNS {
            let result = result(project, run.name);
            println!("{:<16} {:<28} {}", run.name, validation::state(result.as_ref()), run.what);
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for run in RUNS.iter().filter(|run| args.only.is_empty() || is_in(&args.only, run.name)) {
        if !args.again && has_passed(project, run.name) {
            println!("== {}: passed at this commit already", run.name);
            continue;
        }
        if !one(project, run) {
            failed.push(run.name);
        }
    }
    if let Err(why) = validation::write(project) {
        eprintln!("long: {why}");
        return ExitCode::FAILURE;
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("long: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

/// Runs one, and writes its result; whether it passed.
fn one(project: &Project, run: &Run) -> bool {
    println!("== {}: {}", run.name, run.line());
    let (began, start) = (stamp::now_utc(), Instant::now());
    let mut reader = Reader::default();
    let mut last: Vec<String> = Vec::new();
    let ended = outside::show(run.command(project), |line| {
        reader.read(line);
        last.push(project.without_folders(line));
        if last.len() > LAST_LINES {
            last.remove(0);
        }
    });
    let is_right = reader.counts().failed == 0 && !reader.ran_nothing();
    let passed = ended.as_ref().is_ok_and(|passed| *passed) && is_right;
    if let Err(error) = &ended {
        last.push(error.to_string());
    }
    let counts = reader.counts();
    let reasons = reader.reasons.iter().map(|(why, times)| (project.without_folders(why), times));
    let reasons: std::collections::BTreeMap<_, _> = reasons.collect();
    let result = json!({
        "run": run.name,
        "what": run.what,
        "command": run.line(),
        "date": began,
        "commit": stamp::commit(project.root()),
        "machine": stamp::machine(),
        "rustc": stamp::first_line(Command::new("rustc").arg("--version")),
        "took_s": start.elapsed().as_secs_f64().round(),
        "ending": if passed { "passed" } else { "failed" },
        "passed": counts.passed,
        "failed": counts.failed,
        "not_measured": counts.not_measured,
        "skipped": counts.skipped,
        "reasons": reasons,
        "last_lines": last,
    });
    let written = write(project, run.name, &result);
    if let Err(error) = written {
        eprintln!("long: {}: {error}", run.name);
    }
    println!("== {}: {}", run.name, if passed { "passed" } else { "FAILED" });
    passed
}

fn write(project: &Project, name: &str, result: &Value) -> io::Result<()> {
    let path = path(project, name);
    fs::create_dir_all(path.parent().unwrap_or(&path))?;
    fs::write(path, format!("{result:#}\n"))
}

fn path(project: &Project, name: &str) -> PathBuf {
    project.path(RESULTS).join(format!("{name}.json"))
}

/// The latest result of a run, if it ever ran.
fn result(project: &Project, name: &str) -> Option<Value> {
    serde_json::from_slice(&fs::read(path(project, name)).ok()?).ok()
}

fn has_passed(project: &Project, name: &str) -> bool {
    let commit = stamp::commit(project.root());
    let is_of_it =
        |result: Value| result["ending"] == "passed" && result["commit"] == json!(commit);
    // Changes that are not committed may differ from those of the last run.
    stamp::is_exact(&commit) && result(project, name).is_some_and(is_of_it)
}
