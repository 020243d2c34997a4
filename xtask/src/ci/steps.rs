//! The steps beside the tests, in the order they run.

use std::fs::OpenOptions;
use std::process::Command;

use clap::ValueEnum;

use crate::built;
use crate::check::targets;
use crate::project::Project;
use crate::{outside, python};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Step {
    /// Format, lints, documentation, licences, packages, house rules
    Check,
    /// The daemon's memory, which depends on the build
    Daemon,
    /// All experiments of the lab, by their defaults
    Lab,
    /// Tests in an interpreter that detects undefined behaviour
    Miri,
    /// The quick rows of the machines under QEMU
    Machines,
    /// The pages, in node and in a browser
    Page,
    /// The shipped questions, in several engines
    Queries,
    /// The manifests by their schemas, and the Ansible role twice
    Manifests,
}

/// What this machine lacks for a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) why: String,
    pub(super) remedy: String,
}

impl Step {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it runs, one after another until one fails.
    pub(super) fn commands(self, project: &Project) -> Result<Vec<Command>, Missing> {
        let cargo = |arguments: &[&str]| {
            let mut command = project.cargo();
            command.args(arguments);
            command
        };
        match self {
            Self::Check => Ok(vec![cargo(&["xtask", "check"])]),
            // With the features that the package has, not those of the workspace's tests: its
            // size is what is promised.
            Self::Daemon => Ok(vec![cargo(&[
                "test",
                "--release",
                "--package",
                "parachron-daemon",
                "--test",
                "program",
            ])]),
            Self::Lab => {
                kvm()?;
                let mut lab = built::program(project, "parachron", "crates/cli");
                lab.arg("lab");
                Ok(vec![built::build(project, &["--bin", "parachron"]), lab])
            }
            Self::Miri => {
                let mut miri = project.nightly_cargo();
                need(miri.args(["miri", "--version"]), "no nightly toolchain with Miri", || {
                    "rustup toolchain install nightly --component miri,rust-src".to_owned()
                })?;
                Ok(vec![cargo(&["xtask", "miri"])])
            }
            Self::Machines => {
                let mut qemu = Command::new("qemu-system-x86_64");
                need(qemu.arg("--version"), "no QEMU", || {
                    "apt-get install qemu-system-x86".to_owned()
                })?;
                Ok(vec![cargo(&["xtask", "machines", "--quick"])])
            }
            Self::Page => {
                need(Command::new("node").arg("--version"), "no node", || {
                    "apt-get install nodejs".to_owned()
                })?;
                target("wasm32-unknown-unknown")?;
                Ok(vec![cargo(&["xtask", "page", "--check"])])
            }
            Self::Queries | Self::Manifests => {
                let (why, remedy) = python::MISSING;
                need(&mut python::probe(), why, || remedy.to_owned())?;
                Ok(vec![cargo(&["xtask", &self.name()])])
            }
        }
    }
}

fn need(command: &mut Command, why: &str, remedy: impl Fn() -> String) -> Result<(), Missing> {
    if outside::is_available(command) {
        return Ok(());
    }
    Err(Missing { why: why.to_owned(), remedy: remedy() })
}

fn target(name: &str) -> Result<(), Missing> {
    if targets::is_installed(name) {
        return Ok(());
    }
    let (why, remedy) = (format!("no target {name}"), format!("rustup target add {name}"));
    Err(Missing { why, remedy })
}

/// The lab's virtual machine is x86-64's alone.
fn kvm() -> Result<(), Missing> {
    let missing = |why: String| Missing { why, remedy: "run on x86-64 with /dev/kvm".to_owned() };
    if std::env::consts::ARCH != "x86_64" {
        return Err(missing(format!("the lab does not run on {}", std::env::consts::ARCH)));
    }
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    opened.map(drop).map_err(|error| missing(format!("/dev/kvm: {error}")))
}
