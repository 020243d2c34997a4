//! The project's chores. `cargo xtask check` is exactly what CI runs beside
//! the tests; the other commands are its steps alone, or too long for it.

mod arrows;
mod bench;
mod check;
mod diagnostic;
mod docs;
mod fuzz;
mod miri;
mod nested;
mod outside;
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
    /// Run all that CI runs beside the tests; says what each step took
    Check(check::Args),
    /// Hold the files to STYLE.md
    Tidy,
    /// Hold the crates to their floors: who may use whom
    Arrows,
    /// Run a benchmark: ours beside the peers', answers asserted
    Bench(bench::Args),
    /// Fuzz each target from its seeds, and count the executions
    Fuzz(fuzz::Args),
    /// Test the program against the real thing
    E2e(EndToEnd),
    /// Run pvclock's tests under Miri
    Miri,
    /// Rewrite schemas, the table of rules and the C header, and build the API
    /// documentation
    Docs,
}

#[derive(Debug, clap::Args)]
struct EndToEnd {
    #[command(subcommand)]
    against: RealThing,
}

#[derive(Debug, Subcommand)]
enum RealThing {
    /// A stock Debian kernel with KVM, in QEMU's software emulation
    Nested(nested::Args),
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let project = Project::here();
    match command_line.chore {
        Chore::Check(args) => check::run(&project, &args),
        Chore::Tidy => diagnostic::tell("tidy", &tidy::check(&project)),
        Chore::Arrows => diagnostic::tell("arrows", &arrows::check(&project)),
        Chore::Bench(args) => bench::run(&project, &args),
        Chore::Fuzz(args) => fuzz::run(&project, &args),
        Chore::E2e(EndToEnd { against: RealThing::Nested(args) }) => nested::run(&project, &args),
        Chore::Miri => miri::run(&project),
        Chore::Docs => docs::run(&project),
    }
}
