//! A disk that is full at every file that a daemon writes, and has room again.

use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use daemon::gate::socket::{GateRequest, ask};

use crate::gated::{Gated, LIMIT, read_start, workload};
use crate::running::{Running, end, parachrond};

/// Of a line of the log: beyond what a busy host takes.
const LOGGED_IN: Duration = Duration::from_secs(60);

/// Runs a program with a configuration where a folder is a disk without room.
const ON_A_FULL_DISK: &str = "mount -t tmpfs -o size=64k none \"$2\" || exit 77; \
    cat /dev/zero >\"$2/fill\" 2>/dev/null; exec \"$0\" --config \"$1\"";

fn on_a_full_disk(program: &std::ffi::OsStr, file: &Path, disk: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", ON_A_FULL_DISK]);
    command.arg(program).arg(file).arg(disk).stdin(Stdio::null()).stderr(Stdio::piped());
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET");
    command
}

#[test]
fn a_full_disk_ends_nothing_and_freezes_nothing() {
    let workload = workload();
    let group = workload.as_ref().map_or("parachron-test-none", |workload| &workload.name);
    let (folder, file) = Gated::configure(&format!("/{group}"), LIMIT);
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    if let Ok(tried) = on_a_full_disk("true".as_ref(), &file, &disk).output()
        && !tried.status.success()
    {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        // Nobody reads a captured standard error that is closed.
        let _ = writeln!(std::io::stderr(), "skipped: a mount namespace: {why}");
        return;
    }
    let at = |name: &str| disk.join(name).display().to_string();
    let text = fs::read_to_string(&file).unwrap();
    let text = text
        .replace("state-folder = ''", &format!("state-folder = '{}'", disk.display()))
        .replace(&folder.path().join("gate.sock").display().to_string(), &at("gate.sock"))
        .replace("clockbound = ''", &format!("clockbound = '{}'", at("clockbound")))
        + &format!("host-time = '{}'\nrecords = '{}'\n", at("host-time"), at("records"));
    fs::write(&file, text).unwrap();
    let mut running =
        Running(on_a_full_disk(parachrond().get_program(), &file, &disk).spawn().unwrap());
    let (line, log) = read_start(&mut running);
    for output in ["ClockBound's segments", "host time "] {
        let refused = format!("not used: {output}");
        assert!(line.contains(&refused), "{refused}: {line}");
    }
    assert!(line.matches("No space left on device").count() >= 2, "{line}");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let logged = |wanted: &str| {
        let end = Instant::now() + LOGGED_IN;
        loop {
            let line = lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|why| panic!("no line with {wanted:?}: {why}"));
            if line.contains(wanted) {
                return line;
            }
        }
    };
    logged("nothing is recorded: cannot write");
    let disk = format!("/proc/{}/root{}", running.0.id(), disk.display());
    let gated = Gated { folder, file, running };
    let gate = PathBuf::from(format!("{disk}/gate.sock"));
    let freeze = || ask(&gate, GateRequest::Freeze, Duration::from_secs(60)).unwrap();
    if let Some(workload) = &workload {
        let reply = freeze();
        assert!(reply.starts_with("error: "), "{reply}");
        assert!(!workload.is_asked_to_freeze(), "what no list thaws is not frozen");
    }
    assert!(gated.status().sources.len() == 1);

    // There is room again.
    fs::remove_file(format!("{disk}/fill")).unwrap();
    let id = rustix::process::Pid::from_child(&gated.running.0);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    let reloaded = logged("reloaded: ");
    assert!(!reloaded.contains("No space left"), "{reloaded}");
    let begun = Instant::now();
    while !["clockbound/shm0", "host-time"]
        .iter()
        .all(|name| fs::metadata(format!("{disk}/{name}")).is_ok_and(|file| file.len() > 0))
    {
        assert!(begun.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(20));
    }
    if workload.is_some() {
        assert!(freeze().starts_with("closed: 1 frozen"));
    }
    end(&gated.running.0);
    logged("summary: ran ");
}
