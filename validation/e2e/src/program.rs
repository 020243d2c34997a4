//! The program under test: built once, run as a person would.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::cpu_watch::CpuWatch;

/// The user that owns nothing, on every Linux.
const NOBODY: u32 = 65534;

/// The `parachron` that the cases run.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

/// What a run left behind.
#[derive(Debug)]
pub struct ProgramOutput {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
}

impl Program {
    /// The one of this tree, built when first asked for, or the one that
    /// `PARACHRON` names.
    ///
    /// # Errors
    /// It does not build; the compiler's words are printed.
    pub fn built() -> Result<&'static Self, String> {
        static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
        PROGRAM.get_or_init(Self::find).as_ref().map_err(Clone::clone)
    }

    /// A program at this path.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    fn find() -> Result<Self, String> {
        if let Some(path) = std::env::var_os("PARACHRON") {
            return Ok(Self::at(path.into()));
        }
        // Cargo says where the program is; a path put together here would
        // miss CARGO_TARGET_DIR and the like. `--workspace` chooses the same
        // features as the build of the tests, which then need not be redone.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--quiet", "--workspace", "--bin", "parachron", "--bin", "parachrond"])
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(project())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines().find_map(executable).map(Self::at).ok_or_else(|| {
            // Once, not with each case.
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            "parachron does not build: the compiler's words stand above".to_owned()
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon of the same build, which is beside it.
    pub fn daemon(&self) -> PathBuf {
        self.path.with_file_name("parachrond")
    }

    /// A command to be run, with nothing to read.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let output = self.command(arguments).output();
        ProgramOutput::from(output.unwrap_or_else(|e| panic!("{}: {e}", self.path.display())))
    }

    /// Runs it to its end, with its threads watched as well.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn run_watched(&self, arguments: &[&str], watch: &CpuWatch) -> ProgramOutput {
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
        watch.include(child.id());
        child.wait_with_output().expect("our own child").into()
    }

    /// Runs it as somebody who may do nothing special: as `nobody`, when we
    /// are root.
    ///
    /// # Panics
    /// It cannot be copied or started.
    pub fn run_unprivileged(&self, arguments: &[&str]) -> ProgramOutput {
        if !rustix::process::geteuid().is_root() {
            return self.run(arguments);
        }
        // Nobody may not be let in to where the build put it.
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("our own folder");
        let copy = place.path().join("parachron");
        fs::copy(&self.path, &copy).expect("the program can be copied");
        let mut command = Command::new(copy);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null());
        ProgramOutput::from(command.output().expect("the copy starts"))
    }
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }
}

/// The project's root folder.
pub fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The path in cargo's message that a program is ready.
fn executable(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_ours = message["target"]["name"] == "parachron";
    message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
}
