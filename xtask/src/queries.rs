//! `cargo xtask queries`: the shipped questions in three engines, and in parachron-query where
//! it was built, over records that the daemon's own code has written.

use std::process::{Command, ExitCode};

use crate::built;
use crate::outside;
use crate::project::Project;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also time each question over so many made rows; 100000000 take 3 GB for a while
    #[arg(long)]
    rows: Option<u64>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    if !outside::is_available(Command::new("python3").args(["-c", "import venv"])) {
        println!("SKIPPED: no Python with venv; try: apt-get install python3-venv");
        return ExitCode::SUCCESS;
    }
    let mut build = built::build(project, &["--example", "minutes"]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let mut python = Command::new("python3");
    python.arg(project.path("query/questions/check.py"));
    python.arg("--target").arg(project.target_folder().join("queries"));
    python.arg("--writer").arg(project.target_folder().join("debug/examples/minutes"));
    let builds = ["query/target/release", "query/target/debug"];
    let own = builds.map(|folder| project.path(folder).join("parachron-query"));
    match own.iter().find(|program| program.is_file()) {
        Some(program) => {
            python.arg("--own").arg(program);
        }
        None => println!(
            "parachron-query is not asked; to build it, some 20 minutes: cargo build --release \
             --manifest-path query/Cargo.toml"
        ),
    }
    if let Some(rows) = args.rows {
        python.args(["--rows", &rows.to_string()]);
    }
    outside::pass_through(&mut python)
}
