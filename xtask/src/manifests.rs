//! `cargo xtask manifests`: the manifests for Kubernetes by Kubernetes' and the operator's
//! schemas, and the Ansible role applied twice.

use std::process::{Command, ExitCode};

use crate::outside;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> ExitCode {
    if !outside::is_available(Command::new("python3").args(["-c", "import venv"])) {
        println!("SKIPPED: no Python with venv; try: apt-get install python3-venv");
        return ExitCode::SUCCESS;
    }
    let mut build = project.cargo();
    build.args(["build", "--quiet", "--package", "parachron"]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let mut python = Command::new("python3");
    python.arg(project.path("packaging/check.py"));
    python.arg("--target").arg(project.target_folder().join("manifests"));
    python.arg("--program").arg(project.target_folder().join("debug/parachron"));
    outside::pass_through(&mut python)
}
