//! `parachron watch`: what befalls this machine is told for what it is. What
//! a host would do is done by files that stand in for its pages and its
//! kernel's log; the clock is not touched.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use e2e::{Case, Need, Program};
use pvclock::vmclock::{VmClockFlags, VmClockInfo};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::vmclock::PAGE;

pub(crate) const CASES: &[Case] = &[
    Case { name: "watch_tells_a_restore", needs: &[], run: watch_tells_a_restore },
    Case { name: "watch_tells_a_migration", needs: &[], run: watch_tells_a_migration },
    Case { name: "watch_reads_the_log_as_it_grows", needs: &[], run: reads_the_log_as_it_grows },
    Case { name: "watch_that_is_stopped_tells_no_pause", needs: &[], run: stopped_is_no_pause },
    Case {
        name: "watch_tells_a_switch_of_the_source",
        needs: &[Need::Root, Need::Clocksource("kvm-clock"), Need::Clocksource("tsc")],
        run: tells_a_switch,
    },
    Case { name: "watch_writes_to_the_journal", needs: &[], run: writes_to_the_journal },
    Case { name: "watch_needs_a_journal_that_is_there", needs: &[], run: needs_a_journal },
    Case { name: "watch_fails_on_what_it_is_told_to", needs: &[], run: fails_on_what_it_is_told },
];

/// A VMClock page with a generation.
fn page(disruption_marker: u64, vm_generation: u64) -> [u8; VmClockInfo::SIZE] {
    let flags = VmClockFlags::VM_GENERATION_PRESENT;
    VmClockInfo { disruption_marker, flags, vm_generation, ..PAGE }.to_bytes()
}

/// A watch of a stand-in for the host.
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

    /// The next line; a watch that tells nothing would hang here, and so ends
    /// by its duration.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line of text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The next disruption, or the summary.
    fn told(&mut self) -> Value {
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

    /// Ends it: the exit code, and how often each kind was told.
    fn end(mut self) -> (Option<i32>, Value) {
        self.signal(Signal::TERM);
        let summary = loop {
            let line = self.told();
            if line["event"] == "summary" {
                break line;
            }
        };
        (self.child.wait().expect("our own child").code(), summary["disruptions"].clone())
    }
}

fn evidence(told: &Value) -> Vec<&str> {
    let all = told["evidence"].as_array().expect("evidence");
    all.iter().filter_map(|one| one["what"].as_str()).collect()
}

fn watch_tells_a_restore(program: &Program) {
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    watch.write_page(2, 2);
    let told = watch.told();
    assert_eq!(told["kind"], "snapshot-restored", "{told:#}");
    assert_eq!(evidence(&told), ["vm-clock-marker", "vm-clock-generation"], "{told:#}");
    assert_eq!(watch.end().1["snapshot-restored"], 1);
}

fn watch_tells_a_migration(program: &Program) {
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    watch.write_page(2, 1);
    let told = watch.told();
    assert_eq!(told["kind"], "migrated", "{told:#}");
    assert_eq!(evidence(&told), ["vm-clock-marker"], "{told:#}");
}

/// What stood in the log before, and what programs write into it, is not
/// believed.
fn reads_the_log_as_it_grows(program: &Program) {
    let mut watch = Watch::begin(program, &["--duration", "60s"]);
    let lines = "14,2,2,-;PM: suspend exit\n\
                 5,3,3,-;random: crng reseeded due to virtual machine fork\n";
    watch.log.write_all(lines.as_bytes()).expect("a file of ours");
    let told = watch.told();
    assert_eq!(told["kind"], "snapshot-restored", "{told:#}");
    assert_eq!(evidence(&told), ["log"], "{told:#}");
}

/// A machine on which this process alone stood still has had no pause.
fn stopped_is_no_pause(program: &Program) {
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
    assert_eq!(late["event"], "late", "{late:#}");
    // On a machine whose host took the CPU away meanwhile, that comes first.
    let causes = ["stopped", "stolen"];
    assert!(causes.iter().any(|cause| late["cause"] == *cause), "{late:#}");
    let (code, told) = watch.end();
    assert_eq!((code, &told["pause"]), (Some(0), &Value::Null));
}

/// The source in use, which is in use again when this ends.
struct First(String);

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Drop for First {
    fn drop(&mut self) {
        let _ = fs::write(CURRENT, &self.0);
    }
}

fn tells_a_switch(program: &Program) {
    let mut watch = Watch::begin(program, &["--duration", "60s", "--only", "source-switched"]);
    let first = First(fs::read_to_string(CURRENT).expect("a clock source").trim().to_owned());
    let other = if first.0 == "tsc" { "kvm-clock" } else { "tsc" };
    fs::write(CURRENT, other).expect("root may switch");
    let told = watch.line();
    drop(first);
    assert_eq!(told["kind"], "source-switched", "{told:#}");
    assert_eq!(told["evidence"][0]["after"], other, "{told:#}");
}

fn writes_to_the_journal(program: &Program) {
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

fn needs_a_journal(program: &Program) {
    let said = program.run(&["watch", "--duration", "1s", "--journal=/nowhere/socket"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("/nowhere/socket") && said.err.contains("try:"), "{}", said.err);
}

fn fails_on_what_it_is_told(program: &Program) {
    for (kind, code) in [("snapshot-restored,pause", 1), ("pause", 0)] {
        let mut watch = Watch::begin(program, &["--duration", "60s", "--fail-on", kind]);
        watch.write_page(2, 2);
        assert_eq!(watch.told()["kind"], "snapshot-restored");
        assert_eq!(watch.end().0, Some(code), "{kind}");
    }
}
