//! A hypervisor does not outlive the run that started it, even one that is
//! killed.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until a process is gone or a zombie; false after ten seconds.
fn ends(pid: u32) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

/// The pid that a file holds once it is there.
fn pid_in(file: &std::path::Path) -> u32 {
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(pid) = text.trim().parse() {
            return pid;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no pid in {}", file.display());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_killed_run_started_ends_with_all_its_children() {
    let file = std::env::temp_dir().join(format!("machines-guard-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    // The run holds the other end of the guard's standard input, and is killed.
    let mut run = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().unwrap();
    let line = run.stdout.take().unwrap();
    let script = format!("sleep 1001 & echo $! >'{}'; wait", file.display());
    let mut guard = Command::new(env!("CARGO_BIN_EXE_machines"))
        .args(["guard", "60", "sh", "-c", &script])
        .stdin(line)
        .spawn()
        .unwrap();
    let child = pid_in(&file);
    assert!(guard.try_wait().unwrap().is_none());
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(!guard.wait().unwrap().success());
    assert!(ends(child), "process {child} outlived the run");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_killed_guard_takes_the_hypervisor_with_it() {
    let file = std::env::temp_dir().join(format!("machines-guarded-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let script = format!("echo $$ >'{}'; exec sleep 1001", file.display());
    let mut guard = Command::new(env!("CARGO_BIN_EXE_machines"))
        .args(["guard", "60", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let hypervisor = pid_in(&file);
    guard.kill().unwrap();
    guard.wait().unwrap();
    assert!(ends(hypervisor), "process {hypervisor} outlived its guard");
    std::fs::remove_file(&file).unwrap();
}

/// A run that is killed while it fetches packages: apt, and what that started.
#[test]
fn what_a_killed_run_fetches_by_ends_with_it() {
    let folder = std::env::temp_dir().join(format!("machines-fetch-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let pids = [folder.join("pid"), folder.join("child")];
    let [own, child] = pids.each_ref().map(|path| path.display().to_string());
    let script =
        format!("#!/bin/sh\n/bin/sleep 1001 & echo $! >'{child}'; echo $$ >'{own}'; wait\n");
    let sources = "#!/bin/sh\necho main bookworm file:/a; echo main bookworm-security file:/b\n";
    let programs = [
        ("mmdebstrap", script.as_str()),
        ("apt-get", sources),
        ("qemu-system-x86_64", "#!/bin/sh\n"),
    ];
    for (name, text) in programs {
        let program = folder.join(name);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut run = Command::new(env!("CARGO_BIN_EXE_machines"))
        .args(["--only", "pc-6.1", "--programs", ".", "--cache", "cache"])
        .current_dir(&folder)
        .env("PATH", &folder)
        .env("CARGO_TARGET_DIR", &folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = pids.each_ref().map(|path| pid_in(path));
    run.kill().unwrap();
    run.wait().unwrap();
    for pid in pids {
        assert!(ends(pid), "process {pid} outlived the run");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_limit_and_an_exit_code_are_passed_on() {
    let guard = |words: &[&str]| {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_machines"));
        let mut guard = guard.arg("guard").args(words).stdin(Stdio::piped()).spawn().unwrap();
        // `wait` closes the standard input, which would end it.
        let input = guard.stdin.take();
        let code = guard.wait().unwrap().code();
        drop(input);
        code
    };
    assert_eq!(guard(&["60", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(guard(&["0", "sleep", "1000"]), Some(124));
    assert_eq!(guard(&["60", "/no/such/program"]), Some(127));
    assert_eq!(guard(&["soon"]), Some(2));
}

#[test]
fn what_is_guarded_may_not_set_this_systems_clock() {
    let mut guard = Command::new(env!("CARGO_BIN_EXE_machines"))
        .args(["guard", "10", "grep", "^Cap[PEB]", "/proc/self/status"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Open until it has ended by itself.
    let input = guard.stdin.take();
    let text = std::io::read_to_string(guard.stdout.take().unwrap()).unwrap();
    guard.wait().unwrap();
    drop(input);
    let masks: Vec<u64> = text
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok())
        .collect();
    assert_eq!(masks.len(), 3, "{text}");
    // An ordinary user's bounding set stays as it is, and gives it nothing.
    let may = if rustix::process::geteuid().is_root() { 3 } else { 2 };
    assert!(masks[..may].iter().all(|mask| mask >> 25 & 1 == 0), "CAP_SYS_TIME is left: {text}");
}
