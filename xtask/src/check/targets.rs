//! What has no test here builds: crates without an operating system, and programs for a
//! processor whose counter we do not know.

use std::path::Path;

use crate::outside::Outcome;
use crate::project::Project;

/// Targets, and the packages that build for each.
const BUILDS: [(&str, &[&str]); 5] = [
    ("thumbv7em-none-eabi", &["pvclock"]),
    // The pages, whose fields of 64 bits are loaded at once: of pvclock the target above has the units alone.
    ("aarch64-unknown-none", &["pvclock-host", "pvclock"]),
    ("x86_64-unknown-none", &["pvclock-host", "pvclock"]),
    ("aarch64-unknown-linux-gnu", &["pvclock-kvm"]),
    ("riscv64gc-unknown-linux-gnu", &["parachron", "parachron-daemon", "parachron-pvclock-c"]),
];

pub(super) fn check(project: &Project) -> Outcome {
    let mut missing = Vec::new();
    for (target, packages) in BUILDS {
        if !is_installed(target) {
            missing.push(target);
            continue;
        }
        let mut command = project.cargo();
        command.args(["check", "--quiet", "--target", target]);
        if target.contains("-none") {
            command.arg("--no-default-features");
        }
        for package in packages {
            command.args(["--package", package]);
        }
        let outcome = Outcome::of(&mut command);
        if let Outcome::Failed(output) = outcome {
            return Outcome::Failed(format!("{target}:\n{output}"));
        }
    }
    or_missing(&missing)
}

/// Passed, but for targets that are not installed.
pub(super) fn or_missing(missing: &[&str]) -> Outcome {
    if missing.is_empty() {
        return Outcome::Passed;
    }
    let missing = missing.join(" ");
    Outcome::skipped(format!("not installed: {missing}"), format!("rustup target add {missing}"))
}

/// Whether there is a standard library, or core, for it.
pub(crate) fn is_installed(target: &str) -> bool {
    let mut rustc = std::process::Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
