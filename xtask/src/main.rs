//! The project's chores. `cargo xtask ci` runs what CI runs beside the tests, `cargo xtask long`
//! what takes too long for CI; the other commands are single steps of these.

mod arm64;
mod arrows;
mod built;
mod check;
mod ci;
mod circles;
mod counts;
mod diagnostic;
mod docs;
mod fuzz;
mod long;
mod manifests;
mod miri;
mod outside;
mod page;
mod project;
mod python;
mod queries;
mod release;
mod site;
mod tidy;
mod tools;
mod validation;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::project::Project;

/// The project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Format, lints, documentation, licences, packages, house rules
    Check(check::Args),
    /// Run what CI runs beside the tests, as steps with times and one summary
    Ci(ci::Args),
    /// Run everything that takes too long for CI, and keep the results
    Long(long::Args),
    /// Install programs that CI's steps need
    Tools,
    /// Check the files against STYLE.md
    Tidy,
    /// Check the dependencies between the crates
    Arrows,
    /// Check that no files of a crate import each other
    Circles,
    /// Run a benchmark: our clocks and others, with assertions; without a name,
    /// list the benchmarks
    Bench(PassedOn),
    /// Fuzz each target from its seeds, and count the executions
    Fuzz(fuzz::Args),
    /// Test the program in virtual machines under QEMU
    #[command(disable_help_flag = true)]
    Machines(PassedOn),
    /// Have a real Prometheus scrape 50 daemons, cause faults, and see which alerts fire; with
    /// --simulated first, evaluate the rules on simulated machines instead
    #[command(disable_help_flag = true)]
    Alerts(PassedOn),
    /// Ask the shipped questions of three engines, and compare their answers
    Queries(queries::Args),
    /// Judge the manifests by schemas that are not ours, and apply the Ansible role twice
    Manifests,
    /// Run the tests of arm64 under QEMU's user mode, and count them
    Arm64(arm64::Args),
    /// Run the tests of pvclock, clock and vmm's memory under Miri
    Miri,
    /// Build the simulator and the doctor of a log as pages for a browser
    Page(page::Args),
    /// Make all that is published: programs, packages, an image, checksums
    Release(release::Args),
    /// Render the page of all results
    Validation,
    /// Build the documents as a site, by mdBook
    Site,
    /// Rewrite the table of rules, the pages' security policies and the C headers, and build
    /// the API documentation
    Docs,
}

/// Arguments of a program of this workspace.
#[derive(Debug, clap::Args)]
struct PassedOn {
    /// Passed on to the program; `--help` lists its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl PassedOn {
    fn run(&self, project: &Project, cargo_run: &[&str]) -> ExitCode {
        let mut command = project.cargo();
        command.args(["run", "--quiet"]).args(cargo_run).arg("--").args(&self.arguments);
        outside::pass_through(&mut command)
    }
}

fn machines(project: &Project, args: &PassedOn) -> ExitCode {
    let built = outside::pass_through(&mut built::build(project, &["--bin", "machines"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut machines = built::program(project, "machines", "validation/machines");
    outside::pass_through(machines.args(&args.arguments))
}

/// On simulated machines, or beside the programs that it starts. A result is stamped.
fn alerts(project: &Project, args: &PassedOn) -> ExitCode {
    let words = &args.arguments;
    let ran = match words.split_first() {
        Some((first, rest)) if first == "--simulated" => {
            let rest = PassedOn { arguments: rest.to_vec() };
            rest.run(project, &["--release", "--package", "alerts"])
        }
        _ => {
            let mut build = project.cargo();
            build.args(["build", "--quiet", "--release", "--package", "parachron", "--package"]);
            match outside::pass_through(build.arg("parachron-daemon")) {
                ExitCode::SUCCESS => {
                    args.run(project, &["--release", "--package", "e2e", "--bin", "fleet-alerts"])
                }
                failed => failed,
            }
        }
    };
    let into = words.iter().skip_while(|word| *word != "--into").nth(1);
    let command = format!("cargo xtask alerts {}", words.join(" "));
    match into.map_or(Ok(()), |path| validation::stamp(project, path, &command)) {
        Ok(()) => ran,
        Err(why) => {
            eprintln!("alerts: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The page follows the results, whatever the run that wrote some came to.
fn rendered(project: &Project, ran: ExitCode) -> ExitCode {
    match validation::write(project) {
        Ok(()) => ran,
        Err(why) => {
            eprintln!("validation: {why}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let project = Project::here();
    match command_line.chore {
        Chore::Check(args) => check::run(&project, &args),
        Chore::Ci(args) => ci::run(&project, &args),
        Chore::Long(args) => long::run(&project, &args),
        Chore::Tools => tools::run(&project),
        Chore::Tidy => diagnostic::report("tidy", &tidy::check(&project)),
        Chore::Arrows => diagnostic::report("arrows", &arrows::check(&project)),
        Chore::Bench(args) => args.run(&project, &["--profile", "dist", "--package", "bench"]),
        Chore::Alerts(args) => rendered(&project, alerts(&project, &args)),
        Chore::Fuzz(args) => fuzz::run(&project, &args),
        Chore::Circles => diagnostic::report("circles", &circles::check(&project)),
        Chore::Machines(args) => rendered(&project, machines(&project, &args)),
        Chore::Manifests => manifests::run(&project),
        Chore::Queries(args) => queries::run(&project, &args),
        Chore::Arm64(args) => arm64::run(&project, &args),
        Chore::Miri => miri::run(&project),
        Chore::Page(args) => page::run(&project, &args),
        Chore::Release(args) => release::run(&project, &args),
        Chore::Validation => validation::run(&project),
        Chore::Site => site::run(&project),
        Chore::Docs => docs::run(&project),
    }
}
