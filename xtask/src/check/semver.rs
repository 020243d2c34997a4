//! The public items of the libraries that others adopt are those of `public-api.txt` in each
//! one's folder, by cargo-public-api: a change of them is a line in a review.
//! `UPDATE=1 cargo xtask check --only semver` writes the lists again.

use std::fmt::Write as _;
use std::fs;

use super::package::ADOPTED;
use crate::outside::{self, Outcome};
use crate::project::Project;

pub(super) fn check(project: &Project) -> Outcome {
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
