//! `cargo xtask fuzz`: runs each target from its seeds for a number of seconds.

mod machines;

use std::fs;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use crate::outside;
use crate::project::Project;

/// The crate that holds the libFuzzer program, and the seeds: a folder a target.
const ENGINE: &str = "validation/fuzz/engine";
const SEEDS: &str = "validation/fuzz/seeds";

/// Duration and targets.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only these targets
    targets: Vec<String>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    if !outside::is_available(project.nightly_cargo().args(["fuzz", "--version"])) {
        eprintln!("fuzz: no nightly toolchain with cargo-fuzz");
        eprintln!("  try: rustup toolchain install nightly && cargo install --locked cargo-fuzz");
        return ExitCode::FAILURE;
    }
    let known = targets(project);
    if let Some(stranger) = args.targets.iter().find(|target| !known.contains(target)) {
        eprintln!("fuzz: no target {stranger}; there are: {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    let chosen = if args.targets.is_empty() { known } else { args.targets.clone() };
    // Built first, so that the first target's time is not spent on compiling.
    let mut build = project.nightly_cargo();
    build.args(["fuzz", "build", "--fuzz-dir", ENGINE]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let machines = project.path(ENGINE).join("corpus/machines");
    if let Err(error) = machines::prepare(project, &machines) {
        eprintln!("fuzz: the machines of testdata cannot be made seeds: {error}");
        return ExitCode::FAILURE;
    }
    let crashed: Vec<&String> = chosen
        .iter()
        .filter(|target| !is_sound(project, target, &machines, args.seconds))
        .collect();
    println!("fuzz: {} targets, {} crashed: {crashed:?}", chosen.len(), crashed.len());
    if crashed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The targets' names, sorted.
fn targets(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.path(SEEDS)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Runs a target; libFuzzer prints a failure, and at its end how often it ran.
fn is_sound(project: &Project, target: &str, machines: &Path, seconds: u32) -> bool {
    println!("fuzz: {target}: {seconds} s");
    // Findings have a folder of their own: git tracks the seeds.
    let corpus = project.path(ENGINE).join("corpus").join(target);
    let seeds = project.path(SEEDS).join(target);
    if let Err(error) = fs::create_dir_all(&corpus) {
        eprintln!("fuzz: cannot make {}: {error}", corpus.display());
        return false;
    }
    let mut fuzz = project.nightly_cargo();
    fuzz.env("FUZZ_TARGET", target).args(["fuzz", "run", "--fuzz-dir", ENGINE, "any"]);
    fuzz.args([&corpus, &seeds]).args(machines::seeds(machines, target));
    let limit = format!("-max_total_time={seconds}");
    fuzz.args(["--", &limit, "-print_final_stats=1", "-verbosity=0"]).stdin(Stdio::null());
    outside::pass_through(&mut fuzz) == ExitCode::SUCCESS
}
