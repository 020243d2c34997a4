//! `bench --each-source`: whatever ends it, the first clocksource comes back.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::need::Need;
use crate::program::{Program, alone, shared};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const SWITCHING: &[Need] = &[Need::Root, Need::TwoClocksources];

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Long enough for a machine with much else to do.
const SOON: Duration = Duration::from_secs(30);
/// A guard has nothing to wait for.
const AT_ONCE: Duration = Duration::from_secs(5);

fn current() -> Option<String> {
    Some(fs::read_to_string(CURRENT).ok()?.trim().to_owned())
}

/// The source in use, which is in use again when this ends, even by a panic.
struct First(String);

impl First {
    fn note() -> Self {
        Self(current().expect("a clock source"))
    }

    fn is_back(&self) -> bool {
        current().as_ref() == Some(&self.0)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if !self.is_back() {
            let _ = fs::write(CURRENT, &self.0);
        }
    }
}

/// A run that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(limit: Duration, what: &str, mut until: impl FnMut() -> bool) {
    let started = Instant::now();
    while !until() {
        assert!(started.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A bench that is in another source than `first`, and stays for seconds.
fn switched(program: &Program, first: &First) -> Running {
    // The sources take turns of a quarter of the time.
    let arguments = ["bench", "--each-source", "--duration", "12s", "--only", "monotonic"];
    let mut command = program.command(&arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = Running(command.spawn().expect("the program starts"));
    wait(SOON, "another source", || {
        let ended = child.0.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ended too early");
        !first.is_back()
    });
    child
}

/// Ends `child` by `end`, and asserts that the source comes back by itself.
fn is_restored(first: &First, mut child: Running, end: impl FnOnce(Pid)) {
    end(Pid::from_child(&child.0));
    wait(AT_ONCE, "the first source", || first.is_back());
    // The guard shares standard error: when that ends, so has the guard.
    let mut said = String::new();
    child.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let expected = format!("parachron: bench ended early; clocksource {} is restored\n", first.0);
    assert_eq!(said, expected);
    assert!(!child.0.wait().expect("our own child").success());
    assert!(first.is_back());
}

#[test]
fn every_source_is_measured() {
    let Some(program) = &alone(SWITCHING) else { return };
    let first = First::note();
    let said = program.run(&[
        "bench",
        "--each-source",
        "--duration",
        "200ms",
        "--only",
        "monotonic",
        "--format",
        "json",
    ]);
    assert!(first.is_back());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs[0]["clocksource"], first.0.as_str(), "the first source comes first");
    assert!(runs.len() >= 2, "{runs:#?}");
    for run in runs {
        let costs = run["costs"].as_array().expect("costs");
        assert!(costs.iter().all(|cost| cost["samples"].as_u64() > Some(0)), "{run:#}");
    }
}

#[test]
fn the_source_outlives_sigkill() {
    let Some(program) = &alone(SWITCHING) else { return };
    let first = First::note();
    let child = switched(program, &first);
    is_restored(&first, child, |child| {
        kill_process(child, Signal::KILL).expect("our own child");
    });
}

#[test]
fn the_source_outlives_the_end_of_its_group() {
    let Some(program) = &alone(SWITCHING) else { return };
    let first = First::note();
    let child = switched(program, &first);
    is_restored(&first, child, |group| {
        kill_process_group(group, Signal::KILL).expect("our own group");
    });
}

#[test]
fn the_source_outlives_interrupts() {
    let Some(program) = &alone(SWITCHING) else { return };
    // nohup ignores SIGHUP, a shell SIGINT for what it runs in the background,
    // and a child would go on ignoring them; what is caught here is back at its
    // default there (execve(2)).
    let caught = Arc::new(AtomicBool::new(false));
    let handlers = [SIGINT, SIGTERM, SIGHUP].map(|signal| {
        signal_hook::flag::register(signal, Arc::clone(&caught)).expect("it can be caught")
    });
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let first = First::note();
        let child = switched(program, &first);
        is_restored(&first, child, |group| {
            kill_process_group(group, signal).expect("our own group");
        });
    }
    for handler in handlers {
        signal_hook::low_level::unregister(handler);
    }
}

#[test]
fn two_do_not_switch_at_once() {
    let Some(program) = &alone(SWITCHING) else { return };
    let first = First::note();
    let child = switched(program, &first);
    let second = program.run(&["bench", "--each-source", "--duration", "10ms"]);
    assert_eq!(second.code, Some(2), "{}", second.err);
    assert!(second.err.contains("another program holds a lock"), "{}", second.err);
    is_restored(&first, child, |child| {
        kill_process(child, Signal::TERM).expect("our own child");
    });
}

#[test]
fn switching_needs_root() {
    let Some(program) = &shared(&[Need::TwoClocksources]) else { return };
    let first = First::note();
    let said = program.run_unprivileged(&["bench", "--each-source"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert_eq!(
        said.err,
        format!(
            "parachron: switching the clocksource needs root: {CURRENT} is not writable\n  \
             try: run `sudo parachron bench --each-source`\n"
        )
    );
    assert!(first.is_back());
}

#[test]
fn a_dry_run_changes_nothing() {
    let Some(program) = &shared(&[]) else { return };
    let before = current();
    let said = program.run_unprivileged(&["bench", "--each-source", "--dry-run"]);
    assert_eq!(current(), before);
    match before {
        Some(source) => {
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
            assert!(said.out.contains(&source), "{}", said.out);
            assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
        }
        None => assert_eq!(said.code, Some(2), "{}", said.err),
    }
}
