//! The program as it runs in a test, which ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(crate) fn parachrond() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parachrond"));
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

/// A folder, and in it a configuration without this machine's own sources.
pub(crate) fn configured(more: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parachrond.toml");
    let socket = folder.path().join("status.sock");
    let text = format!(
        "force = true\nno-source = ['vmclock', 'phc', 'rtc']\nstatus-socket = '{}'\n{more}",
        socket.display()
    );
    fs::write(&file, text).unwrap();
    (folder, file)
}

/// It is killed as it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Ours; it may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub(crate) fn figure(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }
}

pub(crate) fn end(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

pub(crate) fn started(file: &Path) -> Running {
    let mut command = parachrond();
    command.arg("--config").arg(file).stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}
