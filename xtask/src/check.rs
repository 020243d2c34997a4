//! `cargo xtask check`: every step runs and prints its duration; one failure
//! fails the check.

mod ceiling;
mod clippy;
mod docs;
mod package;
pub(crate) mod targets;

pub(crate) use package::{check as package, metadata};

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;

use crate::check::package::ADOPTED;
use crate::diagnostic::Diagnostic;
use crate::outside::{self, Outcome};
use crate::project::Project;
use crate::{arrows, tidy};

/// Which steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these steps, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<Step>,
}

/// One step, in the order they run: the quick ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Files follow STYLE.md
    Tidy,
    /// The lines of code do not rise above `xtask/ceiling`
    Ceiling,
    /// Crates use only the floors below them
    Arrows,
    /// Libraries can be packaged
    Package,
    /// Code is formatted
    Fmt,
    /// Dependencies' licences, sources and bans
    Licences,
    /// Dependencies' known vulnerabilities
    Advisories,
    /// Clippy finds nothing
    Clippy,
    /// Public items of adopted libraries are those listed
    Semver,
    /// Other targets build: without an operating system, and riscv64
    Targets,
    /// Documentation builds, for the processors of docs.rs too, and its links work
    Docs,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn run(self, project: &Project) -> Outcome {
        match self {
            Self::Tidy => of_diagnostics(&tidy::check(project)),
            Self::Ceiling => of_diagnostics(&ceiling::check(project)),
            Self::Arrows => of_diagnostics(&arrows::check(project)),
            Self::Package => package::check(project),
            Self::Fmt => formatted(project),
            Self::Licences => licences(project),
            Self::Advisories => advisories(project),
            Self::Clippy => clippy::check(project),
            Self::Semver => semver(project),
            Self::Targets => targets::check(project),
            Self::Docs => docs::check(project),
        }
    }
}

/// The manifests of all workspaces: the main one, and those that are built by themselves.
fn workspaces(project: &Project) -> Vec<String> {
    let is_workspace = |path: &String| {
        let text = || std::fs::read_to_string(project.path(path)).unwrap_or_default();
        path.ends_with("Cargo.toml") && text().lines().any(|line| line.starts_with("[workspace]"))
    };
    project.files().into_iter().filter(is_workspace).collect()
}

/// Formatting of every workspace.
fn formatted(project: &Project) -> Outcome {
    if !outside::is_available(project.cargo().args(["fmt", "--version"])) {
        return Outcome::skipped("rustfmt is not installed", "rustup component add rustfmt");
    }
    let names_only = ["--check", "--", "-l", "--color=never"];
    for manifest in workspaces(project) {
        let which = ["fmt", "--all", "--manifest-path", &manifest];
        let outcome = Outcome::of(project.cargo().args(which).args(names_only));
        if let Outcome::Failed(output) = outcome {
            return Outcome::Failed(format!("{output}cargo {} fixes it\n", which.join(" ")));
        }
    }
    Outcome::Passed
}

fn of_diagnostics(diagnostics: &[Diagnostic]) -> Outcome {
    if diagnostics.is_empty() {
        return Outcome::Passed;
    }
    Outcome::Failed(diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect())
}

/// How many steps ended which way, by name.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Tally {
    fn closing_line(&self) -> String {
        let mut line = format!("check: {} passed", self.passed);
        for (names, how) in [(&self.failed, "failed"), (&self.skipped, "skipped")] {
            if !names.is_empty() {
                line.push_str(&format!(", {} {how} ({})", names.len(), names.join(", ")));
            }
        }
        line
    }
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    let mut tally = Tally::default();
    for step in Step::value_variants() {
        if !args.only.is_empty() && !args.only.contains(step) {
            continue;
        }
        let name = step.name();
        print!("{name:<12}");
        // The name is visible while the step runs.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let outcome = step.run(project);
        let took_s = start.elapsed().as_secs_f64();
        match outcome {
            Outcome::Passed => {
                println!("ok      {took_s:7.1} s");
                tally.passed += 1;
            }
            Outcome::Failed(output) => {
                println!("FAILED  {took_s:7.1} s\n{}", output.trim_end());
                tally.failed.push(name);
            }
            Outcome::Skipped { why, remedy } => {
                println!("SKIPPED {took_s:7.1} s  {why}; try: {remedy}");
                tally.skipped.push(name);
            }
        }
    }
    println!("{}", tally.closing_line());
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The licences, bans and sources of deny.toml.
fn licences(project: &Project) -> Outcome {
    missing(project).unwrap_or_else(|| deny(project, &["licenses", "bans", "sources"]))
}

/// RustSec's advisories. Their database is a git repository on the network:
/// if it cannot be fetched, the step is skipped.
fn advisories(project: &Project) -> Outcome {
    if let Some(missing) = missing(project) {
        return missing;
    }
    if let Outcome::Failed(output) =
        Outcome::of(project.cargo().args(["deny", "fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0"))
    {
        return Outcome::skipped(
            format!("the advisory database cannot be fetched: {}", output.trim()),
            "run it with access to github.com/RustSec/advisory-db",
        );
    }
    deny(project, &["advisories"])
}

fn deny(project: &Project, what: &[&str]) -> Outcome {
    workspaces(project)
        .iter()
        .map(|manifest| {
            let which = ["deny", "--manifest-path", manifest, "--config", "deny.toml", "check"];
            Outcome::of(project.cargo().args(which).args(what))
        })
        .find(|outcome| *outcome != Outcome::Passed)
        .unwrap_or(Outcome::Passed)
}

fn missing(project: &Project) -> Option<Outcome> {
    let there = outside::is_available(project.cargo().args(["deny", "--version"]));
    (!there).then(|| {
        Outcome::skipped("cargo-deny is not installed", "cargo install --locked cargo-deny")
    })
}

// The public items of the libraries that others adopt are those of `public-api.txt` in each
// one's folder, by cargo-public-api: a change of them is a line in a review.
// `UPDATE=1 cargo xtask check --only semver` writes the lists again.

fn semver(project: &Project) -> Outcome {
    if !outside::is_available(project.cargo().args(["public-api", "--version"])) {
        let remedy = "cargo install --locked cargo-public-api; rustup toolchain add nightly";
        return Outcome::skipped("cargo-public-api is not installed", remedy);
    }
    let mut wrong = String::new();
    for (package, folder) in ADOPTED {
        let mut command = project.cargo();
        command.args(["public-api", "-sss", "--all-features", "--package", package]);
        let output = match command.output() {
            Ok(output) if output.status.success() => output,
            Ok(output) => return Outcome::Failed(String::from_utf8_lossy(&output.stderr).into()),
            Err(error) => {
                return Outcome::Failed(format!("cannot run cargo public-api: {error}\n"));
            }
        };
        let (now, file) =
            (String::from_utf8_lossy(&output.stdout), format!("crates/{folder}/public-api.txt"));
        if std::env::var_os("UPDATE").is_some()
            && let Err(error) = fs::write(project.path(&file), now.as_bytes())
        {
            return Outcome::Failed(format!("{file}: {error}\n"));
        }
        let listed = fs::read_to_string(project.path(&file)).unwrap_or_default();
        for line in listed.lines().filter(|line| !now.lines().any(|other| other == *line)) {
            let _ = writeln!(wrong, "{file}: no longer there: {line}");
        }
        for line in now.lines().filter(|line| !listed.lines().any(|other| other == *line)) {
            let _ = writeln!(wrong, "{file}: not listed: {line}");
        }
    }
    if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts_and_names() {
        let mut tally = Tally { passed: 6, ..Tally::default() };
        assert_eq!(tally.closing_line(), "check: 6 passed");
        tally.failed = vec!["fmt".to_owned(), "docs".to_owned()];
        tally.skipped = vec!["advisories".to_owned()];
        assert_eq!(
            tally.closing_line(),
            "check: 6 passed, 2 failed (fmt, docs), 1 skipped (advisories)"
        );
    }

    #[test]
    fn a_violation_fails_its_step() {
        assert_eq!(of_diagnostics(&[]), Outcome::Passed);
        let one = Diagnostic::new("a.rs", 3, "too long", "split it");
        assert_eq!(of_diagnostics(&[one]), Outcome::Failed("a.rs:3: too long; split it\n".into()));
    }
}
