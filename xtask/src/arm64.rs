//! `cargo xtask arm64`: the tests, built for arm64 and run by QEMU's user mode, a crate
//! after another, so that one that fails leaves the others' counts.

use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::outside;
use crate::project::Project;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What runs on the machine that builds, or is of x86-64 alone.
const NOT_HERE: [&str; 8] =
    ["bench", "e2e", "fuzz", "parachron-kvm", "parachron-lab", "parachron-vmm", "xtask", "zoo"];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this package; may be repeated [default: all that build for arm64]
    #[arg(long = "package", short = 'p', value_name = "PACKAGE")]
    only: Vec<String>,
    /// Passed on to the test programs, such as --skip NAME
    #[arg(last = true)]
    tests: Vec<String>,
}

/// How many tests ended which way.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Of those that passed: they found nothing to test, and said so.
    skipped: u64,
}

impl Counts {
    /// Of what test programs printed.
    fn of(text: &str) -> Self {
        let mut counts = Self::default();
        for line in text.lines() {
            counts.skipped += u64::from(line.contains("skipped: ") && !line.contains("[skipped: "));
            let Some((_, result)) = line.split_once("test result: ") else { continue };
            let words: Vec<&str> = result.split([' ', ';']).collect();
            for pair in words.windows(2) {
                let Ok(number) = pair[0].parse::<u64>() else { continue };
                match pair[1] {
                    "passed" => counts.passed += number,
                    "failed" => counts.failed += number,
                    "ignored" => counts.ignored += number,
                    _ => {}
                }
            }
        }
        counts
    }
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    for (tool, package) in [
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        ("qemu-aarch64-static", "qemu-user-static"),
    ] {
        if !outside::is_available(Command::new(tool).arg("--version")) {
            eprintln!("arm64: no {tool}\n  try: apt-get install {package}");
            return ExitCode::FAILURE;
        }
    }
    let mut all = Counts::default();
    let mut broken = Vec::new();
    for package in packages(project, args) {
        let output = test(project, &package, &args.tests);
        let (text, success) = output.unwrap_or_else(|error| (error.to_string(), false));
        let counts = Counts::of(&text);
        let Counts { passed, failed, ignored, skipped } = counts;
        println!(
            "{package:<24} {passed:>5} passed {failed:>3} failed {ignored:>3} ignored {skipped:>3} skipped"
        );
        if !success {
            println!("{}", text.trim_end());
            broken.push(package);
        }
        all.passed += passed;
        all.failed += failed;
        all.ignored += ignored;
        all.skipped += skipped;
    }
    let Counts { passed, failed, ignored, skipped } = all;
    println!(
        "arm64: {passed} passed, {failed} failed, {ignored} ignored; of those passed, skipped while running: {skipped}"
    );
    if broken.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("FAILED: {}", broken.join(" "));
    ExitCode::FAILURE
}

fn packages(project: &Project, args: &Args) -> Vec<String> {
    if !args.only.is_empty() {
        return args.only.clone();
    }
    let mut cargo = project.cargo();
    let output = cargo.args(["metadata", "--no-deps", "--format-version", "1"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let metadata: Value = serde_json::from_slice(&text).unwrap_or_default();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut names: Vec<String> =
        packages.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    names.retain(|name| !NOT_HERE.contains(&name.as_str()));
    names.sort();
    names
}

/// What a crate's tests print, and whether all passed.
fn test(project: &Project, package: &str, tests: &[String]) -> std::io::Result<(String, bool)> {
    let mut cargo = project.cargo();
    cargo.args(["test", "--quiet", "--no-fail-fast", "--target", TARGET, "--package", package]);
    cargo.arg("--").args(tests).stdin(Stdio::null());
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    let runner = "qemu-aarch64-static -L /usr/aarch64-linux-gnu";
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    let output = cargo.output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((String::from_utf8_lossy(&text).into_owned(), output.status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_and_skips_counted() {
        let text = "running 3 tests\n..skipped: no /dev/kvm\n.\n\
                    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out\n\
                    test [skipped: no chronyd] x ... ignored\n\
                    test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured\n";
        assert_eq!(Counts::of(text), Counts { passed: 7, failed: 1, ignored: 1, skipped: 1 });
    }
}
