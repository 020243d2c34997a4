//! The project's chores: `.ci/run` runs those that fit a working day, `validation/nightly` the
//! others.

mod arrows;
mod check;
mod diagnostic;
mod dist;
mod manifests;
mod outside;
mod page;
mod project;
mod tidy;

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
    /// Check the files against STYLE.md
    Tidy,
    /// Check the dependencies between the crates
    Arrows,
    /// Run a benchmark: our clocks and others, with assertions; without a name,
    /// list the benchmarks
    Bench(PassedOn),
    /// Test the program in virtual machines under QEMU
    #[command(disable_help_flag = true)]
    Machines(PassedOn),
    /// Judge the manifests by schemas that are not ours, and apply the Ansible roles twice
    Manifests,
    /// Build the doctor of a log as a page for a browser
    Page(page::Args),
    /// Make all that is published: static programs, packages, checksums
    Dist(dist::Args),
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
    let built = outside::pass_through(&mut project.build(&["--bin", "machines"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut machines = project.program("machines", "validation/machines");
    outside::pass_through(machines.args(&args.arguments))
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let project = Project::here();
    match command_line.chore {
        Chore::Check(args) => check::run(&project, &args),
        Chore::Tidy => diagnostic::report("tidy", &tidy::check(&project)),
        Chore::Arrows => diagnostic::report("arrows", &arrows::check(&project)),
        Chore::Bench(args) => args.run(&project, &["--profile", "dist", "--package", "bench"]),
        Chore::Machines(args) => machines(&project, &args),
        Chore::Manifests => manifests::run(&project),
        Chore::Page(args) => page::run(&project, &args),
        Chore::Dist(args) => dist::run(&project, &args),
    }
}
