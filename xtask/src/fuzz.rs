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

/// The result of one target.
#[derive(Debug, PartialEq)]
struct Run {
    target: String,
    executions: Option<u64>,
    crashed: bool,
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
    let run = |target| run_one(project, target, &machines, args.seconds);
    let runs: Vec<Run> = chosen.into_iter().map(run).collect();
    print!("{}", table(&runs, args.seconds));
    let all_sound = runs.iter().all(|run| !run.crashed && run.executions.is_some());
    if all_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The targets' names, sorted.
fn targets(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.path(SEEDS)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn run_one(project: &Project, target: String, machines: &Path, seconds: u32) -> Run {
    eprintln!("{target}: {seconds} s");
    // Findings have a folder of their own: git tracks the seeds.
    let corpus = project.path(ENGINE).join("corpus").join(&target);
    let seeds = project.path(SEEDS).join(&target);
    let made = fs::create_dir_all(&corpus);
    let ran = project
        .nightly_cargo()
        .env("FUZZ_TARGET", &target)
        .args(["fuzz", "run", "--fuzz-dir", ENGINE, "any"])
        .args([&corpus, &seeds])
        .args(machines::seeds(machines, &target))
        .args(["--", &format!("-max_total_time={seconds}"), "-print_final_stats=1"])
        .stdin(Stdio::null())
        .output();
    let (output, succeeded) = match (made, ran) {
        (Ok(()), Ok(ended)) => {
            (String::from_utf8_lossy(&ended.stderr).into_owned(), ended.status.success())
        }
        (Err(error), _) => (format!("cannot make {}: {error}", corpus.display()), false),
        (_, Err(error)) => (format!("cannot run cargo fuzz: {error}"), false),
    };
    if !succeeded {
        excerpt(&output).for_each(|line| eprintln!("  {line}"));
    }
    Run { target, executions: executions(&output), crashed: !succeeded }
}

/// The output of a failed run from the failure on, without the stacks.
fn excerpt(output: &str) -> impl Iterator<Item = &str> {
    let of_stack = |line: &str| {
        let line = line.trim_start();
        line.starts_with("at ")
            || line.starts_with('#')
            || line.starts_with("stat::")
            || line
                .split(':')
                .next()
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let start =
        output.lines().position(|line| line.contains("panicked at") || line.contains("ERROR:"));
    output.lines().skip(start.unwrap_or(0)).filter(move |line| !of_stack(line)).take(60)
}

/// libFuzzer's own count at its end.
fn executions(output: &str) -> Option<u64> {
    let count =
        |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    output.lines().rev().find_map(count)
}

fn table(runs: &[Run], seconds: u32) -> String {
    let width = runs.iter().map(|run| run.target.len()).max().unwrap_or(0).max("target".len());
    let mut text = format!("{:<width$}  {:>13}  {:>10}\n", "target", "executions", "per second");
    for run in runs {
        let count = run.executions.map_or("not counted".to_owned(), |n| n.to_string());
        let rate =
            run.executions.map_or(String::new(), |n| (n / u64::from(seconds.max(1))).to_string());
        let mark = if run.crashed { "  CRASHED" } else { "" };
        text.push_str(&format!("{:<width$}  {count:>13}  {rate:>10}{mark}\n", run.target));
    }
    let sum: u64 = runs.iter().filter_map(|run| run.executions).sum();
    let crashed = runs.iter().filter(|run| run.crashed).count();
    text.push_str(&format!("{} targets, {sum} executions, {crashed} crashed\n", runs.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_libfuzzers_final_count() {
        let output = "#2 INITED\nDone\nstat::number_of_executed_units: 1234567\nstat::x: 1\n";
        assert_eq!(executions(output), Some(1_234_567));
        assert_eq!(executions("==1== ERROR: libFuzzer: deadly signal\n"), None);
    }

    #[test]
    fn an_excerpt_is_the_failure_without_stacks() {
        let output = "INFO: seed 1\nthread panicked at validation/fuzz/src/texts.rs:16:5:\nleft: 1\n   0: begin\n\
                    \u{20}            at /rustc/x.rs\n==2== ERROR: libFuzzer\n    #0 0x5 in f\nFailing input:\n";
        let lines: Vec<&str> = excerpt(output).collect();
        assert_eq!(
            lines,
            [
                "thread panicked at validation/fuzz/src/texts.rs:16:5:",
                "left: 1",
                "==2== ERROR: libFuzzer",
                "Failing input:"
            ]
        );
        assert_eq!(excerpt("no words\n").collect::<Vec<_>>(), ["no words"]);
    }

    #[test]
    fn the_table_distinguishes_a_crash_from_a_count() {
        let run = |target: &str, executions, crashed| Run {
            target: target.to_owned(),
            executions,
            crashed,
        };
        let runs = [run("kvm_page", Some(6000), false), run("cpuinfo", None, true)];
        assert_eq!(
            table(&runs, 60),
            "target       executions  per second\n\
             kvm_page           6000         100\n\
             cpuinfo     not counted              CRASHED\n\
             2 targets, 6000 executions, 1 crashed\n"
        );
    }
}
