//! `cargo xtask manifests`: the manifests for Kubernetes by Kubernetes' and the operator's
//! schemas, the release's workflow by actionlint, and the Ansible roles applied twice.

use std::process::ExitCode;

use crate::project::Project;
use crate::{built, outside, python};

pub(crate) fn run(project: &Project) -> ExitCode {
    let folder = project.target_folder().join("manifests");
    let requirements = project.path("packaging/requirements.txt");
    let mut python = match python::in_venv(&folder, &requirements) {
        Ok(python) => python,
        Err((why, remedy)) => return outside::skip("manifests", &why, &remedy),
    };
    let mut build = built::build(project, &["--bin", "parachron", "--bin", "parachrond"]);
    if outside::pass_through(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    python.arg(project.path("packaging/check.py"));
    python.arg("--target").arg(folder);
    python.arg("--program").arg(project.target_folder().join("debug/parachron"));
    outside::pass_through(&mut python)
}
