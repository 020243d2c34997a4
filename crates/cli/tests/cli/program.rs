//! The program under test, run as a person would, on a machine that has what a test needs.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::need::Need;

/// The user that owns nothing, on every Linux.
const NOBODY: u32 = 65534;

/// Locked by each test for as long as it runs, in any run on this machine: one would take
/// another's temporary clock source for the first, and restore it at its end. Any user can
/// open the file; where it is missing, no test switches.
const LOCK: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// `parachron`, for a test that runs.
#[derive(Debug)]
pub(crate) struct Program {
    _lock: Option<File>,
}

/// For a test that bears others beside it; none where the machine lacks a need.
pub(crate) fn shared(needs: &[Need]) -> Option<Program> {
    Program::on(needs, FlockOperation::LockShared)
}

/// For a test that measures time, or changes what others would see: the clock source, the
/// daemons of this machine, the threads of this process.
pub(crate) fn alone(needs: &[Need]) -> Option<Program> {
    Program::on(needs, FlockOperation::LockExclusive)
}

/// Prints why a test did not run. Not by eprintln: a test that passes shows none of it.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error");
}

impl Program {
    fn on(needs: &[Need], operation: FlockOperation) -> Option<Self> {
        let missing: Vec<String> = needs.iter().filter_map(|need| need.missing()).collect();
        if !missing.is_empty() {
            skipped(&missing.join(", "));
            return None;
        }
        let lock = File::open(LOCK).ok();
        while lock.as_ref().is_some_and(|lock| flock(lock, operation) == Err(Errno::INTR)) {}
        Some(Self { _lock: lock })
    }

    #[expect(clippy::unused_self, reason = "who has it holds the lock")]
    pub(crate) fn path(&self) -> &Path {
        Path::new(env!("CARGO_BIN_EXE_parachron"))
    }

    /// A command to be run, with nothing to read.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        self.command(arguments).output().expect("the program starts").into()
    }

    /// Runs it to its end as somebody who may do nothing special: as `nobody`, when we are root.
    pub(crate) fn run_unprivileged(&self, arguments: &[&str]) -> ProgramOutput {
        if !rustix::process::geteuid().is_root() {
            return self.run(arguments);
        }
        // Nobody may not be let in to where the build put it.
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("our own folder");
        let copy = place.path().join("parachron");
        copy_program(self.path(), &copy);
        let mut command = Command::new(copy);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null());
        command.output().expect("the copy starts").into()
    }
}

/// Copies a program that is to be run. Were it written by this process, a child that another test
/// forks meanwhile would hold it open for writing, and it could not be run (ETXTBSY, execve(2)).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status().expect("cp starts");
    assert!(status.success(), "{} can be copied: {status}", from.display());
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    /// None when a signal ended it.
    pub(crate) code: Option<i32>,
}

impl ProgramOutput {
    /// Whether its first words answer whether the time is right.
    pub(crate) fn has_verdict(&self) -> bool {
        ["The time is ", "It is not known whether the time is right"]
            .iter()
            .any(|answer| self.out.starts_with(answer))
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
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
