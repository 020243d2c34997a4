//! `cargo xtask manifests`: the manifests for Kubernetes by Kubernetes' and the operator's
//! schemas, the release's workflow by actionlint, and the Ansible roles applied twice.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::outside;
use crate::outside::Outcome;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> ExitCode {
    let folder = project.target_folder().join("manifests");
    let requirements = project.path("packaging/requirements.txt");
    // Debian's Python has `venv` without what it needs.
    if !outside::is_available(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        return outside::skip("manifests", "no Python with venv", "apt-get install python3-venv");
    }
    let mut python = match in_environment(&folder.join("venv"), &requirements) {
        Ok(python) => python,
        Err(why) => return outside::skip("manifests", &why, "a machine that reaches PyPI"),
    };
    let mut build = project.build(&["--bin", "parachron", "--bin", "parachrond"]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    python.arg(project.path("packaging/check.py"));
    python.arg("--target").arg(folder);
    python.arg("--program").arg(project.target_folder().join("debug/parachron"));
    outside::pass_through(&mut python)
}

/// Python in an environment of its own, with these requirements; or why there is none.
fn in_environment(environment: &Path, requirements: &Path) -> Result<Command, String> {
    let python = environment.join("bin/python");
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(environment);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    pip.arg(requirements);
    for mut step in [create, pip] {
        if let Outcome::Failed(text) = Outcome::of(&mut step) {
            let last = text.trim_end().lines().next_back().unwrap_or_default();
            return Err(format!("{} could not be installed ({last})", requirements.display()));
        }
    }
    Ok(Command::new(python))
}
