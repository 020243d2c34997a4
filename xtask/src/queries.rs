//! `cargo xtask queries`: the shipped questions in three engines, in parachron-query where it
//! was built and in Spark where it is asked for, over records that the daemon's own code has
//! written.

use std::process::{Command, ExitCode};

use crate::project::Project;
use crate::{built, outside, python};

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also time each question over so many made rows; 100000000 take 3 GB for a while
    #[arg(long)]
    rows: Option<u64>,
    /// Also ask a cluster of Spark, two workers on loopback: needs Java 17; 450 MB from PyPI
    #[arg(long)]
    spark: bool,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    if args.spark && !outside::is_available(Command::new("java").arg("-version")) {
        return outside::skip("queries", "no Java", "apt-get install openjdk-17-jre-headless");
    }
    let folder = project.target_folder().join("queries");
    let requirements = if args.spark { "requirements-spark.txt" } else { "requirements.txt" };
    let requirements = project.path("query/questions").join(requirements);
    let mut python = match python::in_venv(&folder, &requirements) {
        Ok(python) => python,
        Err((why, remedy)) => return outside::skip("queries", &why, &remedy),
    };
    let mut build = built::build(project, &["--example", "minutes"]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    python.arg(project.path("query/questions/check.py"));
    python.arg("--target").arg(folder);
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
    if args.spark {
        python.arg("--spark");
    }
    if let Some(rows) = args.rows {
        python.args(["--rows", &rows.to_string()]);
    }
    outside::pass_through(&mut python)
}
