//! `parachron watch` classifies what happens to this machine. Files in place
//! of the host's page and the kernel's log simulate the host; the clock is not
//! touched.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use crate::need::Need;
use crate::program::{Program, alone, shared};
use pvclock::vmclock::{VmClockFlags, VmClockInfo};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::vmclock::PAGE;

/// A VMClock page with a generation.
fn page(disruption_marker: u64, vm_generation: u64) -> [u8; VmClockInfo::SIZE] {
    let flags = VmClockFlags::VM_GENERATION_PRESENT;
    VmClockInfo { disruption_marker, flags, vm_generation, ..PAGE }.to_bytes()
}

/// A watch of a simulated host.
struct Watch {
    child: Child,
    out: BufReader<ChildStdout>,
    vmclock: File,
    log: File,
    _folder: tempfile::TempDir,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn begin(program: &Program, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, bytes: &[u8]| -> (PathBuf, File) {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("a file");
            let file = File::options().append(name == "log").write(true).open(&path);
            (path, file.expect("the same file"))
        };
        let (vmclock_path, vmclock) = put("vmclock", &page(1, 1));
        let (log_path, log) = put("log", b"6,1,1,-;PM: suspend exit\n");
        let text = |path: &Path| path.to_str().expect("a path of letters").to_owned();
        let (vmclock_path, log_path) = (text(&vmclock_path), text(&log_path));
        let mut arguments = vec![
            "watch",
            "--format",
            "json",
            "--vmclock",
            &vmclock_path,
            "--kernel-log",
            &log_path,
        ];
        arguments.extend(more);
        let mut command = program.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut watch = Self { child, out, vmclock, log, _folder: folder };
        assert_eq!(watch.line()["event"], "started");
        watch
    }

    /// The next line; a watch without events ends by its duration, so that this
    /// does not hang.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line of text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The next disruption, or the summary.
    fn disruption(&mut self) -> Value {
        loop {
            let line = self.line();
            if line["event"] == "disruption" || line["event"] == "summary" {
                return line;
            }
        }
    }

    fn write_page(&self, marker: u64, generation: u64) {
        self.vmclock.write_all_at(&page(marker, generation), 0).expect("a file of ours");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child");
    }

    /// Ends it: the exit code, and how often each kind was reported.
    fn end(mut self) -> (Option<i32>, Value) {
        self.signal(Signal::TERM);
        let summary = loop {
            let line = self.disruption();
            if line["event"] == "summary" {
                break line;
            }
        };
        (self.child.wait().expect("our own child").code(), summary["disruptions"].clone())
    }
}

fn evidence(disruption: &Value) -> Vec<&str> {
    let all = disruption["evidence"].as_array().expect("evidence");
    all.iter().filter_map(|one| one["what"].as_str()).collect()
}

#[test]
fn watch_reports_a_restore() {
    let Some(program) = &shared(&[]) else { return };
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    watch.write_page(2, 2);
    let disruption = watch.disruption();
    assert_eq!(disruption["kinds"], json!(["snapshot-restored"]), "{disruption:#}");
    assert_eq!(evidence(&disruption), ["vm-clock-marker", "vm-clock-generation"], "{disruption:#}");
    assert_eq!(watch.end().1["snapshot-restored"], 1);
}

#[test]
fn watch_reports_a_migration() {
    let Some(program) = &shared(&[]) else { return };
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    watch.write_page(2, 1);
    let disruption = watch.disruption();
    assert_eq!(disruption["kinds"], json!(["migrated"]), "{disruption:#}");
    assert_eq!(evidence(&disruption), ["vm-clock-marker"], "{disruption:#}");
}

/// Lines that were in the log before, and lines of programs, are ignored.
#[test]
fn watch_reads_new_lines_of_the_log() {
    let Some(program) = &shared(&[]) else { return };
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    let lines = "14,2,2,-;PM: suspend exit\n\
                 5,3,3,-;random: crng reseeded due to virtual machine fork\n";
    watch.log.write_all(lines.as_bytes()).expect("a file of ours");
    let disruption = watch.disruption();
    assert_eq!(disruption["kinds"], json!(["snapshot-restored"]), "{disruption:#}");
    assert_eq!(evidence(&disruption), ["log"], "{disruption:#}");
}

/// A machine on which only this process was stopped had no pause.
#[test]
fn watch_that_is_stopped_reports_no_pause() {
    let Some(program) = &shared(&[]) else { return };
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    watch.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    watch.signal(Signal::CONT);
    let late = loop {
        let line = watch.line();
        if line["event"] != "page-update" {
            break line;
        }
    };
    assert_eq!(late["what"], "late", "{late:#}");
    // On a machine whose host stole the CPU meanwhile, that comes first.
    let causes = ["process-stopped", "stolen"];
    assert!(causes.iter().any(|cause| late["cause"] == *cause), "{late:#}");
    let (code, reported) = watch.end();
    assert_eq!((code, &reported["pause"]), (Some(0), &Value::Null));
}

/// The source in use, which is restored when this is dropped.
struct First(String);

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Drop for First {
    fn drop(&mut self) {
        let _ = fs::write(CURRENT, &self.0);
    }
}

#[test]
fn watch_reports_a_switch_of_the_source() {
    let Some(program) =
        &alone(&[Need::Root, Need::Clocksource("kvm-clock"), Need::Clocksource("tsc")])
    else {
        return;
    };
    let mut watch = Watch::begin(program, &["--duration", "60s", "--kind", "source-switched"]);
    let first = First(fs::read_to_string(CURRENT).expect("a clock source").trim().to_owned());
    let other = if first.0 == "tsc" { "kvm-clock" } else { "tsc" };
    fs::write(CURRENT, other).expect("root may switch");
    let disruption = watch.line();
    drop(first);
    assert_eq!(disruption["kinds"], json!(["source-switched"]), "{disruption:#}");
    assert_eq!(disruption["evidence"][0]["after"], other, "{disruption:#}");
}

#[test]
fn watch_writes_to_the_journal() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixDatagram::bind(&path).expect("a socket");
    listener.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let option = format!("--journal={}", path.display());
    let watch = Watch::begin(program, &["--duration", "60s", &option]);
    watch.write_page(2, 2);
    let mut bytes = [0; 4096];
    let length = listener.recv(&mut bytes).expect("an entry");
    let entry = String::from_utf8_lossy(&bytes[..length]);
    for field in ["PARACHRON_KIND=snapshot-restored\n", "PRIORITY=4\n", "MESSAGE_ID="] {
        assert!(entry.contains(field), "{entry}");
    }
    assert!(entry.contains("this machine was restored from a snapshot\n- VMClock"), "{entry}");
}

#[test]
fn watch_needs_an_existing_journal() {
    let Some(program) = &shared(&[]) else { return };
    let output = program.run(&["watch", "--duration", "1s", "--journal=/nowhere/socket"]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    assert!(
        output.err.contains("/nowhere/socket") && output.err.contains("try:"),
        "{}",
        output.err
    );
}

#[test]
fn watch_fails_on_the_given_kinds() {
    let Some(program) = &shared(&[]) else { return };
    for (kind, code) in [("snapshot-restored,pause", 1), ("pause", 0)] {
        let mut watch = Watch::begin(program, &["--duration", "60s", "--fail-on", kind]);
        watch.write_page(2, 2);
        assert_eq!(watch.disruption()["kinds"], json!(["snapshot-restored"]));
        assert_eq!(watch.end().0, Some(code), "{kind}");
    }
}
