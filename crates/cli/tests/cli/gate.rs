//! `parachron gate exec`: a command in a control group that `parachrond` freezes. The daemon has no
//! source of time, so its gate opens by its limit, or after a kill.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::need::{Need, cgroup_mount};
use crate::program::{Program, project, shared};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const NEEDS: &[Need] = &[Need::Root, Need::ControlGroups];

/// What is thawed or started is so within this, on a busy machine too.
const SOON: Duration = Duration::from_secs(20);

/// A frozen command prints nothing for so long; one that runs prints every 10 ms.
const SILENCE: Duration = Duration::from_millis(500);

/// Of a gate that a test opens by a kill, and of one that is to open by its limit.
const LONG: &str = "60s";
const SHORT: &str = "3s";

/// A group of users that are not root.
const NOBODY: u32 = 65534;

/// A line every 10 ms.
const TICKS: &str = "while echo tick; do sleep 0.01; done";

/// A control group that no other test has; it is removed with all in it.
struct Group {
    name: String,
    path: PathBuf,
}

impl Group {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("parachron-exec-{}-{number}", std::process::id());
        let path = cgroup_mount().expect("a need of these cases").join(&name);
        Self { name, path }
    }

    fn entry(&self) -> String {
        format!("/{}", self.name)
    }

    fn is_asked_to_freeze(&self) -> bool {
        fs::read_to_string(self.path.join("cgroup.freeze")).unwrap() == "1\n"
    }

    fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap();
        events.lines().any(|line| line == "frozen 1")
    }

    fn processes(&self) -> String {
        fs::read_to_string(self.path.join("cgroup.procs")).unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whatever a failed test left there; a frozen process is killed too.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        let begun = Instant::now();
        while self.path.exists() && fs::remove_dir(&self.path).is_err() && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A child of ours, which is killed as it is dropped.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a process prints, read beside the test.
fn lines(child: &mut Child) -> Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sends, receives) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = out.lines().map_while(Result::ok).try_for_each(|line| sends.send(line));
    });
    receives
}

/// Nothing comes for a while, beside what was on its way.
fn is_silent(lines: &Receiver<String>) -> bool {
    std::thread::sleep(Duration::from_millis(100));
    while lines.try_recv().is_ok() {}
    lines.recv_timeout(SILENCE).is_err()
}

/// A daemon with a gate of these groups.
struct Gated<'a> {
    program: &'a Program,
    folder: TempDir,
    daemon: Running,
}

/// The daemon of the same build, which cargo makes for another package's tests.
fn parachrond(program: &Program) -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // The same features as in a build of all, which then need not be redone.
        cargo.args(["build", "--quiet", "--workspace", "--bin", "parachrond"]);
        assert!(cargo.current_dir(project()).status().expect("cargo runs").success());
    });
    program.path().with_file_name("parachrond")
}

impl<'a> Gated<'a> {
    fn start(program: &'a Program, groups: &[&Group], limit: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The daemon's group has the right to freeze, and that of the folder is it.
        std::os::unix::fs::chown(folder.path(), None, Some(NOBODY)).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let entries: Vec<_> = groups.iter().map(|group| format!("'{}'", group.entry())).collect();
        let text = format!(
            "force = true\nno-source = ['vmclock', 'phc', 'rtc']\nstatus-socket = '{}'\n\
             host-socket = '{}'\nstate-folder = ''\nclockbound = ''\nchrony = ['makestep={}']\n\
             gate = [{}]\ngate-limit = '{limit}'\ngate-socket = '{}'\n",
            at("status.sock"),
            at("host.sock"),
            at("no-chronyd.sock"),
            entries.join(", "),
            at("gate.sock"),
        );
        let file = folder.path().join("parachrond.toml");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(parachrond(program));
        command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
        command.arg("--config").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Running(command.spawn().unwrap());
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(folder.path().join("gate.sock")).is_err() {
            assert!(begun.elapsed() < SOON, "parachrond does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { program, folder, daemon }
    }

    /// `parachron gate exec` of a line of the shell.
    fn command(&self, group: &Group, line: &str) -> Command {
        let socket = self.folder.path().join("status.sock").display().to_string();
        let mut command = self.program.command(&["gate", "exec", "--cgroup", &group.entry()]);
        command.args(["--status-socket", &socket, "--", "sh", "-c", line]);
        command
    }

    fn exec(&self, group: &Group, line: &str) -> Output {
        self.command(group, line).output().unwrap()
    }

    /// The same in the background, and what it prints.
    fn spawn(&self, group: &Group, line: &str) -> (Running, Receiver<String>) {
        let mut child = self.command(group, line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines(&mut child);
        (Running(child), lines)
    }

    /// `parachron gate freeze`, `thaw` or `thaw --force`.
    fn request(&self, words: &[&str]) -> String {
        let socket = self.folder.path().join("gate.sock").display().to_string();
        let output = self.program.run(&[&["gate"], words, &["--socket", &socket]].concat());
        output.out + &output.err
    }

    fn freeze(&self) {
        let reply = self.request(&["freeze"]);
        assert!(reply.starts_with("closed: 1 frozen in "), "{reply}");
    }

    /// Its watcher: its child.
    fn watcher(&self) -> Option<Pid> {
        let id = self.daemon.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }
}

/// The daemon has searched for its groups a moment ago, before there was this one.
#[test]
fn gate_exec_runs_a_command_in_its_control_group() {
    let Some(program) = &shared(NEEDS) else { return };
    let group = Group::new();
    let gated = Gated::start(program, &[&group], LONG);
    assert!(!group.path.exists());
    let ran = gated.exec(&group, "cat /proc/self/cgroup; echo to-stderr >&2; exit 7");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!((ran.status.code(), &*err), (Some(7), "to-stderr\n"), "{out}");
    assert!(out.lines().any(|line| line == format!("0::{}", group.entry())), "{out}");
    // The group stays for the next command, and the daemon's group may freeze it.
    assert_eq!(group.processes(), "");
    let right = fs::metadata(group.path.join("cgroup.freeze")).unwrap();
    assert_eq!((right.gid(), right.mode() & 0o777), (NOBODY, 0o664));
    let again = gated.exec(&group, "kill -USR1 $$");
    assert_eq!(again.status.signal(), Some(Signal::USR1.as_raw()), "the command's own end");
    // Its process is the command's: a service manager sees the end of the right one.
    let (mut running, lines) = gated.spawn(&group, "echo $$; exec sleep 600");
    assert_eq!(lines.recv_timeout(SOON).unwrap(), running.0.id().to_string());
    assert_eq!(group.processes(), format!("{}\n", running.0.id()));
    running.kill();
    let (name, socket) = (group.entry(), gated.folder.path().join("status.sock"));
    let socket = socket.display().to_string();
    let none = program.run(&[
        "gate",
        "exec",
        "--cgroup",
        &name,
        "--status-socket",
        &socket,
        "--",
        "/no/such/program",
    ]);
    assert_eq!(none.code, Some(2), "{}", none.err);
    assert!(none.err.contains("/no/such/program: No such file"), "{}", none.err);
}

#[test]
fn gate_exec_freezes_and_thaws_its_command() {
    let Some(program) = &shared(NEEDS) else { return };
    let group = Group::new();
    let gated = Gated::start(program, &[&group], SHORT);
    let (_running, ticks) = gated.spawn(&group, TICKS);
    ticks.recv_timeout(SOON).unwrap();
    gated.freeze();
    assert!(group.is_frozen());
    assert!(is_silent(&ticks), "a frozen command prints");
    // No source shows that the clock is right: it opens by its limit.
    let reply = gated.request(&["thaw"]);
    assert!(reply.contains("open, but the clock is not known to be right"), "{reply}");
    assert!(!group.is_frozen());
    ticks.recv_timeout(SOON).expect("a thawed command prints");
}

/// Also in a group that is newer than the freeze, which did not include it.
#[test]
fn gate_exec_starts_nothing_while_the_gate_is_closed() {
    let Some(program) = &shared(NEEDS) else { return };
    let (group, newer) = (Group::new(), Group::new());
    let gated = Gated::start(program, &[&group, &newer], "6s");
    assert_eq!(gated.exec(&group, "true").status.code(), Some(0));
    gated.freeze();
    let (mut held, begins) = gated.spawn(&group, "echo begins");
    let (mut held_newer, begins_newer) = gated.spawn(&newer, "echo begins");
    // Beyond what the daemon takes to find the new group.
    let wait = Duration::from_millis(2500);
    assert!(begins.recv_timeout(wait).is_err(), "it began in a frozen group");
    assert!(begins_newer.try_recv().is_err(), "it began in a group newer than the freeze");
    assert!(group.is_frozen(), "the gate opened before the look");
    assert!(gated.request(&["thaw"]).contains("open, but"));
    for (held, begins) in [(&mut held, begins), (&mut held_newer, begins_newer)] {
        assert_eq!(begins.recv_timeout(SOON).as_deref(), Ok("begins"));
        assert_eq!(held.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn gate_exec_leaves_nothing_frozen_after_a_kill() {
    let Some(program) = &shared(NEEDS) else { return };
    let group = Group::new();
    let mut gated = Gated::start(program, &[&group], LONG);
    // The command itself, frozen: it ends at once, and its group is empty.
    let (mut running, begins) = gated.spawn(&group, "echo begins; exec sleep 600");
    begins.recv_timeout(SOON).unwrap();
    gated.freeze();
    running.kill();
    assert_eq!(group.processes(), "", "left: a frozen process");
    // One that waits in the closed gate, before it is the command.
    let (mut waiting, begins) = gated.spawn(&group, "echo begins");
    let begun = Instant::now();
    while group.processes().is_empty() {
        assert!(begun.elapsed() < SOON, "it does not enter the group");
        std::thread::sleep(Duration::from_millis(5));
    }
    waiting.kill();
    assert!(begins.recv().is_err() && group.processes().is_empty());
    gated.daemon.kill();
    await_thaw(&group, "the daemon, with no command");

    // The daemon: its watcher thaws the command.
    let mut gated = Gated::start(program, &[&group], LONG);
    let (_running, ticks) = gated.spawn(&group, TICKS);
    ticks.recv_timeout(SOON).unwrap();
    gated.freeze();
    assert!(is_silent(&ticks));
    gated.daemon.kill();
    await_thaw(&group, "the daemon");
    ticks.recv_timeout(SOON).expect("a thawed command prints");

    // The daemon and its watcher: `thaw --force` thaws it.
    let mut gated = Gated::start(program, &[&group], LONG);
    gated.freeze();
    kill_process(gated.watcher().expect("a watcher"), Signal::KILL).unwrap();
    gated.daemon.kill();
    assert!(group.is_asked_to_freeze() && is_silent(&ticks));
    assert_eq!(gated.request(&["thaw", "--force"]), "1 control group thawed\n");
    await_thaw(&group, "both");
    ticks.recv_timeout(SOON).expect("a thawed command prints");
}

fn await_thaw(group: &Group, killed: &str) {
    let begun = Instant::now();
    while group.is_asked_to_freeze() || group.is_frozen() {
        assert!(begun.elapsed() < SOON, "left frozen; killed: {killed}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A command that nobody would freeze does not run, and leaves no group.
#[test]
fn gate_exec_without_a_daemon_is_refused() {
    let Some(program) = &shared(NEEDS) else { return };
    let (group, other) = (Group::new(), Group::new());
    let gated = Gated::start(program, &[&other], LONG);
    let refused = |gated: &Gated<'_>| {
        let ran = gated.exec(&group, "echo begins");
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(2), &b""[..]), "{err}");
        assert!(err.contains(&format!("set gate = [\"{}\"]", group.entry())), "{err}");
        assert!(!group.path.exists(), "a refused command leaves its group");
    };
    refused(&gated);
    let mut gated = gated;
    gated.daemon.kill();
    refused(&gated);
}
