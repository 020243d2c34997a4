//! A workload in a control group, and a daemon with a gate.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::running::{Running, configured, parachrond};
use daemon::gate::socket::{GateRequest, ask};
use daemon::gate::{GroupTree, give_right};
use daemon::status::{DaemonStatus, GateStatus};

/// What is frozen is thawed within this of a kill.
pub(crate) const THAWED_IN: Duration = Duration::from_secs(20);

/// Of a gate that is to open by itself: beyond what a busy host takes between two requests.
pub(crate) const LIMIT: &str = "3s";

/// A user and a group without rights.
pub(crate) const NOBODY: u32 = 65534;

/// A control group with a process in it, both of which go as this is dropped.
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) group: PathBuf,
    pub(crate) process: Child,
}

impl Workload {
    pub(crate) fn new() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let tree = GroupTree::of_this_process().map_err(|why| why.to_string())?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("parachron-test-{}-{number}", std::process::id());
        let group = tree.mount().join(&name);
        fs::create_dir(&group).map_err(|why| format!("{}: {why}", group.display()))?;
        let process = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let workload = Self { name, group, process };
        fs::write(workload.group.join("cgroup.procs"), workload.process.id().to_string())
            .map_err(|why| format!("{}: {why}", workload.group.display()))?;
        Ok(workload)
    }

    /// By the kernel: `cgroup.events`.
    pub(crate) fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.group.join("cgroup.events")).unwrap();
        events.lines().any(|line| line == "frozen 1")
    }

    /// By the kernel: what it was asked for.
    pub(crate) fn is_asked_to_freeze(&self) -> bool {
        fs::read_to_string(self.group.join("cgroup.freeze")).unwrap() == "1\n"
    }

    pub(crate) fn take_right(&self) {
        let file = self.group.join("cgroup.freeze");
        chown(&file, None, Some(0)).unwrap();
    }

    /// What `--prepare-gate` does.
    pub(crate) fn give_right(&self, to: u32) {
        give_right(&self.group, to).unwrap();
    }

    pub(crate) fn await_thaw(&self, what: &str) {
        let begun = Instant::now();
        while self.is_asked_to_freeze() || self.is_frozen() {
            assert!(begun.elapsed() < THAWED_IN, "left frozen: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Ours; a frozen process dies by SIGKILL too.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let begun = Instant::now();
        while fs::remove_dir(&self.group).is_err() && begun.elapsed() < THAWED_IN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A workload, or the reason why there is none.
pub(crate) fn workload() -> Option<Workload> {
    let made = Workload::new();
    let skip = |why: &String| writeln!(std::io::stderr(), "skipped: control groups: {why}");
    // Nobody reads a captured standard error that is closed.
    made.as_ref().err().map(skip).transpose().ok();
    made.ok()
}

/// A daemon with a gate. Its only source is a socket on which nobody sends: its clock is never
/// known to be right.
pub(crate) struct Gated {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
    pub(crate) running: Running,
}

impl Gated {
    pub(crate) fn start(gate: &str, limit: &str) -> Self {
        let (folder, file) = Self::configure(gate, limit);
        let running = started(crate::running::started(&file));
        Self { folder, file, running }
    }

    /// As a user without the right to freeze anything.
    pub(crate) fn start_unprivileged(gate: &str, limit: &str) -> Self {
        let (folder, file) = Self::configure(gate, limit);
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = parachrond();
        command.uid(NOBODY).gid(NOBODY).arg("--config").arg(&file).stderr(Stdio::piped());
        let running = started(Running(command.spawn().unwrap()));
        Self { folder, file, running }
    }

    pub(crate) fn configure(gate: &str, limit: &str) -> (tempfile::TempDir, PathBuf) {
        let (folder, file) = configured("");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let text = fs::read_to_string(&file).unwrap()
            + &format!(
                "host-socket = '{}'\nstate-folder = ''\nclockbound = ''\ninterval = '20ms'\n\
                 chrony = ['makestep={}']\ngate = ['{gate}']\ngate-limit = '{limit}'\n\
                 gate-socket = '{}'\n",
                at("host.sock"),
                at("no-chronyd.sock"),
                at("gate.sock")
            );
        fs::write(&file, text).unwrap();
        (folder, file)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("gate.sock")
    }

    pub(crate) fn ask(&self, request: GateRequest) -> String {
        ask(&self.socket(), request, Duration::from_secs(60)).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> DaemonStatus {
        let status =
            daemon::status_socket::ask(&self.folder.path().join("status.sock"), None).unwrap();
        serde_json::from_str(&status).unwrap()
    }

    pub(crate) fn gate_status(&self) -> GateStatus {
        self.status().gate.unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.running.0.kill().unwrap();
        self.running.0.wait().unwrap();
    }

    /// The process that watches it: its child.
    pub(crate) fn watcher(&self) -> Option<u32> {
        let id = self.running.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

/// Until it has logged that it started: that line, and the rest of its log.
pub(crate) fn read_start(running: &mut Running) -> (String, BufReader<ChildStderr>) {
    let mut log = BufReader::new(running.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it started");
    }
    (line, log)
}

/// Until it has logged that it started.
pub(crate) fn started(mut running: Running) -> Running {
    let (_, log) = read_start(&mut running);
    // What it logs later needs a reader.
    std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(drop));
    running
}

pub(crate) fn kill_process(id: u32) {
    let id = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
    // Ours, and it may have ended.
    let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
}

pub(crate) fn thawed_by_the_unit(file: &Path) -> bool {
    let mut thaw = parachrond();
    thaw.arg("--thaw").arg("--config").arg(file).stdout(Stdio::null());
    thaw.status().unwrap().success()
}
