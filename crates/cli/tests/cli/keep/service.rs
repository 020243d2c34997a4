//! `parachron keep` as a service: the host's messages, permission, its
//! manager, its end.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::chronyd::Chronyd;
use crate::need::Need;
use crate::program::{Program, ProgramOutput, alone, shared};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{ahead, by_itself, dry, is_by, parsed};
use crate::formats::keeps_to;

/// A keeper that runs until it is signalled.
pub(super) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut running = Self { child, lines };
        running.until("started");
        running
    }

    fn dry(program: &Program, more: &[&str]) -> Self {
        Self::start(program.command(&[&dry(&["--format", "json"])[..], more].concat()))
    }

    /// The next line of this event.
    pub(super) fn until(&mut self, event: &str) -> Value {
        let mut before = Vec::new();
        for line in &mut self.lines {
            let line = parsed(&line.expect("text"));
            if line["event"] == event {
                return line;
            }
            before.push(line);
        }
        panic!("no {event} in {before:?}");
    }

    /// Kills it.
    pub(super) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("our own child");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child");
    }

    /// Ends it; its summary.
    pub(super) fn end(mut self) -> Value {
        self.signal(Signal::TERM);
        let summary = self.until("summary");
        assert_eq!(self.child.wait().expect("our own child").code(), Some(0));
        summary
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ours; it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn send(socket: &Path, message: &str) {
    let host = UnixDatagram::unbound().expect("a socket");
    host.send_to(message.as_bytes(), socket).expect("somebody listens");
}

/// The time in a minute, as the host's message.
pub(super) fn a_minute_ahead() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time since 1970");
    format!("time {:.9} +- 0.5", now.as_secs_f64() + 60.0)
}

#[test]
fn keep_reads_the_hosts_messages() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("host.sock");
    let mut running = Running::dry(program, &["--host-socket", socket.to_str().unwrap()]);
    send(&socket, "what is the time?");
    let rejected = running.until("host-message-rejected");
    assert!(rejected["why"].as_str().unwrap().contains("expected"), "{rejected}");
    send(&socket, "resumed");
    running.until("host-resumed");
    send(&socket, &a_minute_ahead());
    let step = running.until("corrected");
    assert!(is_by(&step, 60.0), "{step}");
    let summary = running.end();
    assert_eq!((&summary["steps"], &summary["largest_step_ns"]), (&1.into(), &step["by_ns"]));
    assert!(!socket.exists(), "it removes its socket");
}

#[test]
fn keep_needs_permission() {
    let Some(program) = &shared(&[]) else { return };
    // Even if `nobody` may set clocks here, this port has no server.
    let more = ["--ntp", "127.0.0.1:9", "--duration", "1ms"];
    let said = program.run_unprivileged(&by_itself(&more));
    assert_eq!(said.code, Some(3), "{}", said.out);
    for expected in ["cannot set the time of day", "CAP_SYS_TIME", "try: ", "--dry-run"] {
        assert!(said.err.contains(expected), "{}", said.err);
    }
}

/// The program without the right to set the clock.
pub(super) fn without_capability(program: &Program, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_time", "--inh-caps", "-sys_time", "--"]);
    command.arg(program.path()).args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn keep_needs_the_capability_of_root_too() {
    let Some(program) = &shared(&[Need::Root, Need::Tool("setpriv")]) else { return };
    let arguments = ["keep", "--force", "--ntp", "127.0.0.1:9", "--duration", "1ms"];
    let output = without_capability(program, &arguments).output().expect("setpriv runs");
    let said = ProgramOutput::from(output);
    assert_eq!(said.code, Some(3), "{}", said.out);
    assert!(said.err.contains("CAP_SYS_TIME"), "{}", said.err);
}

/// A lost log does not end it: it still notifies its manager.
#[test]
fn keep_runs_on_without_its_logs_reader() {
    let Some(program) = &alone(&[Need::Root, Need::Tool("setpriv")]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    // It feeds a chronyd that does not run, and may not set the clock.
    let feed = format!("sock={}", folder.path().join("nobody.sock").display());
    let host = folder.path().join("host.sock");
    let more = ["--format", "json", "--interval", "50ms", "--chrony", &feed, "--host-socket"];
    let arguments = [&["keep", "--force"], &more[..], &[host.to_str().unwrap()]].concat();
    let mut command = without_capability(program, &arguments);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000").env_remove("WATCHDOG_PID");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("text");
    assert_eq!(parsed(&line)["event"], "started");
    drop(reader);
    let mut alive = 0;
    // Some may have been sent before the reader went.
    while alive < 20 {
        send(&host, "what is the time?");
        let mut bytes = [0; 1024];
        let length = manager.recv(&mut bytes).expect("it is alive");
        alive += u32::from(bytes[..length].starts_with(b"WATCHDOG=1"));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    assert_eq!(child.wait().expect("our own child").code(), Some(0));
}

#[test]
fn keep_killed_leaves_nothing() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("host.sock");
    let more = ["--host-socket", socket.to_str().unwrap()];
    let mut running = Running::dry(program, &more);
    running.signal(Signal::KILL);
    running.child.wait().expect("our own child");
    // Except its socket, which the next one takes over.
    let left: Vec<_> = fs::read_dir(folder.path()).expect("our folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    Running::dry(program, &more).end();
}

#[test]
fn keep_notifies_its_manager() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let server = ahead(0.0);
    let name = server.name();
    let arguments = dry(&["--format", "json", "--ntp", &name, "--interval", "50ms"]);
    let mut command = program.command(&arguments);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
    let running = Running::start(command);
    let receive = |expected: &str| {
        let mut bytes = [0; 1024];
        let mut before = Vec::new();
        loop {
            let length = manager.recv(&mut bytes).unwrap_or_else(|e| panic!("{e}: {before:?}"));
            let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if message.contains(expected) {
                return;
            }
            before.push(message);
        }
    };
    receive("READY=1");
    receive("RESTART_RESET=1\nSTATUS=synchronised: offset");
    receive("WATCHDOG=1");
    receive("WATCHDOG=1");
    running.end();
    receive("STOPPING=1");
}

#[test]
fn keep_is_asked_for_its_status() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("status.sock");
    let socket = socket.to_str().unwrap();
    let ask = ["status", "--socket", socket];
    let none = program.run(&ask);
    assert!(none.code == Some(2) && none.err.contains("no daemon is running"), "{}", none.err);
    let server = ahead(0.0);
    let mut running = Running::dry(program, &["--ntp", &server.name(), "--status-socket", socket]);
    running.until("synchronised");
    let text = program.run(&ask);
    assert_eq!(text.code, Some(0), "{}", text.err);
    assert!(
        text.out.contains("clock: synchronised") && text.out.contains(" selected\n"),
        "{}",
        text.out
    );
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
    let json = program.run(&[&ask[..], &["--format", "json"]].concat());
    keeps_to(program, "status", &json.out);
    assert_eq!(parsed(&json.out)["sources"][0]["state"], "selected", "{}", json.out);
    assert_eq!(running.end()["steps"], 0);
}

fn status_of(running: &Running, field: &str) -> u64 {
    let path = format!("/proc/{}/status", running.child.id());
    let status = fs::read_to_string(path).expect("our child's status");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number")
}

/// Each wait ends with a sample: nothing else wakes it. And it stays small.
#[test]
fn keep_wakes_for_samples_alone() {
    let Some(program) = &alone(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("host.sock");
    let more = ["--interval", "20ms", "--host-socket", socket.to_str().unwrap()];
    let running = Running::dry(program, &more);
    let before = status_of(&running, "voluntary_ctxt_switches:");
    std::thread::sleep(Duration::from_secs(2));
    let woken = status_of(&running, "voluntary_ctxt_switches:") - before;
    let own_kb = status_of(&running, "RssAnon:");
    let samples = running.end()["samples"].as_u64().unwrap();
    assert!(woken <= samples, "woken {woken} times for {samples} samples");
    assert!(own_kb <= 5 * 1024, "{own_kb} kB of its own");
}

/// chronyd selects what keep feeds it, and keep needs no permission to set the
/// clock for that.
#[test]
fn keep_feeds_a_real_chronyd() {
    let Some(program) = &alone(&[
        Need::Root,
        Need::Loopback,
        Need::Tool("setpriv"),
        Need::Tool("chronyd"),
        Need::Tool("chronyc"),
    ]) else {
        return;
    };
    let chronyd = Chronyd::fed();
    let server = ahead(0.3);
    let name = server.name();
    let feed = format!("sock={}", chronyd.feed().display());
    let more = ["--format", "json", "--ntp", &name, "--poll", "1s", "--chrony", &feed];
    let arguments = by_itself(&more);
    let running = Running::start(without_capability(program, &arguments));
    let tracking = || {
        let (host, port) = (chronyd.command.ip().to_string(), chronyd.command.port().to_string());
        let output =
            Command::new("chronyc").args(["-c", "-h", &host, "-p", &port, "tracking"]).output();
        String::from_utf8_lossy(&output.expect("chronyc runs").stdout).into_owned()
    };
    let followed = (0..120).any(|_| {
        std::thread::sleep(Duration::from_millis(250));
        tracking().contains(",PRCH,")
    });
    assert!(followed, "{}", tracking());
    let summary = running.end();
    assert!(summary["fed_chronyd"].as_u64() >= Some(1), "{summary}");
    assert_eq!((&summary["steps"], &summary["slews"]), (&0.into(), &0.into()));
}

/// On `makestep` chronyd drops its measurements and tries: this one was
/// started with -x, without a clock to set.
#[test]
fn keep_sends_a_real_chronyd_makestep() {
    let Some(program) = &alone(&[
        Need::Root,
        Need::Loopback,
        Need::Tool("setpriv"),
        Need::Tool("chronyd"),
        Need::Tool("chronyc"),
    ]) else {
        return;
    };
    let chronyd = Chronyd::start("");
    let server = ahead(2.0);
    let name = server.name();
    let makestep = format!("makestep={}", chronyd.commands().display());
    let more = ["--format", "json", "--ntp", &name, "--chrony", &makestep];
    let arguments = by_itself(&more);
    let mut running = Running::start(without_capability(program, &arguments));
    let failed = running.until("failed");
    assert_eq!(failed["how"], "makestep");
    assert!(failed["why"].as_str().unwrap().contains("refused: it failed"), "{failed}");
    assert_eq!(running.end()["steps"], 0);
}
