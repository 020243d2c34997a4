//! `cargo xtask ci`: what CI runs beside the tests, each step with its time, and one summary
//! that counts the tests as well. A failed check is red. Checks that a busy host left unmeasured
//! are counted: above [`MOST_NOT_MEASURED`] the run is yellow.

mod steps;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum as _;
use serde_json::json;

use crate::ci::steps::{Missing, Step};
use crate::counts::{Counts, Reader};
use crate::outside;
use crate::project::Project;

/// The share of checks that may be left unmeasured in a green run.
const MOST_NOT_MEASURED: f64 = 0.05;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these steps, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<Step>,
    /// Count the tests by what `cargo test` printed into this file
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
    /// The exit code of `cargo test`
    #[arg(long, value_name = "CODE", default_value_t = 0)]
    tests_exit: u8,
    /// How long `cargo test` took
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    tests_took: f64,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Passed,
    Failed,
    Skipped,
}

/// A step, and what became of it.
#[derive(Debug)]
struct Report {
    name: String,
    ending: Ending,
    took_s: f64,
    counts: Counts,
    reasons: Vec<String>,
}

impl Report {
    /// A step without a closing line of its own counts as one check.
    fn new(name: &str, passed: bool, took_s: f64, reader: &Reader) -> Self {
        let mut counts = reader.counts();
        let passed = passed && !reader.ran_nothing();
        if counts.all() == 0 && passed {
            counts.passed = 1;
        }
        if counts.failed == 0 && !passed {
            counts.failed = 1;
        }
        let reasons = reader.reasons.iter().map(|(why, times)| format!("{times} × {why}"));
        Self {
            name: name.to_owned(),
            ending: if passed && counts.failed == 0 { Ending::Passed } else { Ending::Failed },
            took_s,
            counts,
            reasons: reasons.collect(),
        }
    }

    fn skipped(name: &str, Missing { why, remedy }: &Missing) -> Self {
        Self {
            name: name.to_owned(),
            ending: Ending::Skipped,
            took_s: 0.0,
            counts: Counts { skipped: 1, ..Counts::default() },
            reasons: vec![format!("1 × skipped: {why}; try: {remedy}")],
        }
    }
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    let start = Instant::now();
    let mut reports = Vec::new();
    if let Some(file) = &args.tests {
        reports.push(tests(file, args.tests_exit, args.tests_took));
    }
    for step in Step::value_variants() {
        if args.only.is_empty() || args.only.contains(step) {
            reports.push(run_step(project, *step, start));
        }
    }
    let took_s = start.elapsed().as_secs_f64() + args.tests_took;
    record(project, &reports, took_s);
    for line in summary(&reports, took_s) {
        println!("{line}");
    }
    let failed = reports.iter().any(|report| report.ending == Ending::Failed);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The tests ran before: the README's command is what a person runs.
fn tests(file: &PathBuf, exit: u8, took_s: f64) -> Report {
    let text = fs::read(file).unwrap_or_default();
    let mut reader = Reader::default();
    for line in String::from_utf8_lossy(&text).lines() {
        reader.read(line);
    }
    Report::new("tests", exit == 0 && reader.counts().passed > 0, took_s, &reader)
}

fn run_step(project: &Project, step: Step, start: Instant) -> Report {
    let name = step.name();
    let minutes = start.elapsed().as_secs() / 60;
    println!("== {name} ({minutes} min {:02} s)", start.elapsed().as_secs() % 60);
    let began = Instant::now();
    let commands = match step.commands(project) {
        Ok(commands) => commands,
        Err(missing) => return Report::skipped(&name, &missing),
    };
    let mut reader = Reader::default();
    let passed = commands.into_iter().all(|command| {
        outside::show(command, |line| {
            reader.read(line);
        })
        .unwrap_or_else(|error| {
            println!("{name}: {error}");
            false
        })
    });
    Report::new(&name, passed, began.elapsed().as_secs_f64(), &reader)
}

/// A row a step, the reasons, and the verdict as the last line.
fn summary(reports: &[Report], took_s: f64) -> Vec<String> {
    let mut lines = vec![format!("== summary ({:.1} min)", took_s / 60.0)];
    for Report { name, ending, took_s, counts, .. } in reports {
        let ending = match ending {
            Ending::Passed => "ok",
            Ending::Failed => "FAILED",
            Ending::Skipped => "SKIPPED",
        };
        let Counts { passed, failed, not_measured, skipped } = counts;
        lines.push(format!(
            "{name:<10} {ending:<8}{took_s:7.1} s {passed:>6} passed {failed:>3} failed \
             {not_measured:>3} not measured {skipped:>3} skipped"
        ));
    }
    for Report { name, reasons, .. } in reports {
        lines.extend(reasons.iter().map(|reason| format!("{name}: {reason}")));
    }
    let all: Counts = reports.iter().map(|report| report.counts).sum();
    let tried = all.passed + all.failed + all.not_measured;
    let share = all.not_measured as f64 / tried.max(1) as f64;
    let verdict = if all.failed > 0 {
        "red"
    } else if share > MOST_NOT_MEASURED {
        "yellow"
    } else {
        "green"
    };
    lines.push(format!("not measured: {} of {tried} ({:.1} %)", all.not_measured, share * 100.0));
    let mut last =
        format!("{verdict}: {} passed, {} failed, {} skipped", all.passed, all.failed, all.skipped);
    let is_skipped = |report: &&Report| report.ending == Ending::Skipped;
    let skipped: Vec<&str> =
        reports.iter().filter(is_skipped).map(|report| report.name.as_str()).collect();
    if !skipped.is_empty() {
        last.push_str(&format!("; not run at all: {}", skipped.join(", ")));
    }
    lines.push(last);
    lines
}

/// Keeps the times, for the next run to be compared with.
fn record(project: &Project, reports: &[Report], took_s: f64) {
    let steps: Vec<_> = reports
        .iter()
        .map(|report| {
            json!({
                "name": report.name,
                "ending": format!("{:?}", report.ending).to_lowercase(),
                "took_s": report.took_s,
                "passed": report.counts.passed,
                "failed": report.counts.failed,
                "not_measured": report.counts.not_measured,
                "skipped": report.counts.skipped,
            })
        })
        .collect();
    let text = json!({ "commit": stamp::commit(project.root()), "took_s": took_s, "steps": steps });
    let path = project.target_folder().join("ci.json");
    if let Err(error) = fs::write(&path, format!("{text:#}\n")) {
        println!("{}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn report(counts: Counts) -> Report {
        let ending = if counts.failed > 0 { Ending::Failed } else { Ending::Passed };
        Report { name: "lab".into(), ending, took_s: 1.0, counts, reasons: Vec::new() }
    }

    #[test]
    fn the_last_line_says_green_yellow_or_red() {
        let last = |counts| summary(&[report(counts)], 60.0).pop().unwrap();
        let counts = Counts { passed: 95, failed: 0, not_measured: 5, skipped: 2 };
        assert_eq!(last(counts), "green: 95 passed, 0 failed, 2 skipped");
        let more = Counts { not_measured: 6, ..counts };
        assert_eq!(last(more), "yellow: 95 passed, 0 failed, 2 skipped");
        let wrong = Counts { failed: 1, ..more };
        assert_eq!(last(wrong), "red: 95 passed, 1 failed, 2 skipped");

        let missing = Missing { why: "no node".into(), remedy: "apt-get install nodejs".into() };
        let reports = [report(counts), Report::skipped("page", &missing)];
        assert_eq!(
            summary(&reports, 60.0).pop().unwrap(),
            "green: 95 passed, 0 failed, 3 skipped; not run at all: page"
        );
    }

    #[test]
    fn a_command_that_fails_fails_its_step_whatever_it_counted() {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut reader = Reader::default();
            let passed = outside::show(command, |line| {
                reader.read(line);
            })
            .unwrap();
            Report::new("step", passed, 0.0, &reader)
        };
        let fine = run("echo x: 3 passed, 0 failed");
        assert_eq!((fine.ending, fine.counts.passed), (Ending::Passed, 3));
        let died = run("echo x: 3 passed, 0 failed; exit 1");
        assert_eq!((died.ending, died.counts.failed), (Ending::Failed, 1));
        let wrong = run("echo x: 3 passed, 2 failed >&2");
        assert_eq!((wrong.ending, wrong.counts.failed), (Ending::Failed, 2));
        let empty = run("echo x: 0 passed, 0 failed");
        assert_eq!(empty.ending, Ending::Failed);
        let silent = run("true");
        assert_eq!((silent.ending, silent.counts.passed), (Ending::Passed, 1));
    }

    #[test]
    fn tests_that_ran_nothing_have_failed() {
        let folder = std::env::temp_dir().join(format!("parachron-ci-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tests");
        fs::write(&file, "test result: ok. 0 passed; 0 failed; 0 ignored\n").unwrap();
        let empty = tests(&file, 0, 1.0);
        fs::write(&file, "test result: ok. 2 passed; 0 failed; 0 ignored\n").unwrap();
        let (fine, died) = (tests(&file, 0, 1.0), tests(&file, 101, 1.0));
        fs::remove_dir_all(&folder).unwrap();
        let endings = [empty, fine, died].map(|report| report.ending);
        assert_eq!(endings, [Ending::Failed, Ending::Passed, Ending::Failed]);
    }
}
