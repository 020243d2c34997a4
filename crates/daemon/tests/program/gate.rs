//! The gate on a real cgroup v2: the program freezes a workload, is killed at each step, and
//! nothing stays frozen. Skipped, with the reason, where this process may create no control
//! group.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::running::{Running, configured, end, parachrond};
use daemon::gate::socket::{GateRequest, ask};
use daemon::gate::{GroupTree, list_file, thaw_listed};
use daemon::status::GateState;
use test_size::size;

use crate::gated::{
    Gated, LIMIT, NOBODY, THAWED_IN, Workload, kill_process, read_start, started,
    thawed_by_the_unit, workload,
};

#[test]
fn a_workload_is_frozen_for_a_snapshot_and_thawed_after_the_limit() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), LIMIT);
    assert!(!workload.is_frozen());
    let reply = gated.ask(GateRequest::Freeze);
    assert!(reply.starts_with("closed: 1 frozen in "), "{reply}");
    assert!(workload.is_frozen());
    assert!(list_file(&gated.socket()).exists());
    // Nobody sends the time: it fails open, and reports that.
    let reply = gated.ask(GateRequest::Thaw);
    assert_eq!(reply, "error: open, but the clock is not known to be right");
    assert!(!workload.is_frozen() && !list_file(&gated.socket()).exists());
    let status = gated.status();
    let gate = status.gate.unwrap();
    assert_eq!(gate.state, GateState::Overdue);
    assert!(gate.trouble.unwrap().contains("the clock was not right"));
    assert!(status.recent.iter().any(|line| line.event == "gate opened"), "{:?}", status.recent);
}

/// Sends the time by the host's socket.
fn send_time(to: &Path) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let text = format!("time {:.9} +- 0.001", since.as_secs_f64());
    let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
    client.send_to(text.as_bytes(), to).unwrap();
}

#[test]
fn a_workload_is_thawed_once_the_clock_is_measured() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), "60s");
    let host = gated.folder.path().join("host.sock");
    // It was right before: that does not open the gate.
    send_time(&host);
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    let socket = gated.socket();
    let asks = std::thread::spawn(move || {
        ask(&socket, GateRequest::Thaw, Duration::from_secs(60)).unwrap_or_default()
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(workload.is_frozen() && !asks.is_finished());
    // The request may be read after the first of them.
    while !asks.is_finished() {
        send_time(&host);
        std::thread::sleep(Duration::from_millis(20));
    }
    let reply = asks.join().unwrap();
    assert!(reply.starts_with("open: after ") && reply.contains("the clock is off by"), "{reply}");
    assert!(!workload.is_frozen());
}

/// A snapshot with programs that run is not to be taken for one without.
#[test]
fn a_freeze_of_a_part_is_an_error_and_the_next_request_freezes_the_rest() {
    let (Some(ours), Some(theirs)) = (workload(), workload()) else { return };
    ours.give_right(NOBODY);
    let gated = Gated::start_unprivileged(&format!("/{}', '/{}", ours.name, theirs.name), "60s");
    for _ in 0..2 {
        let reply = gated.ask(GateRequest::Freeze);
        let expected = format!("error: cannot freeze {}: ", theirs.group.display());
        assert!(reply.starts_with(&expected), "{reply}");
        assert!(ours.is_frozen() && !theirs.is_frozen());
    }
    let shown = |workload: &Workload| workload.group.display().to_string();
    let status = gated.gate_status();
    assert_eq!((status.groups, status.frozen), (Vec::from([shown(&ours)]), 1));
    theirs.give_right(NOBODY);
    let reply = gated.ask(GateRequest::Freeze);
    assert!(reply.starts_with("closed: 2 frozen in "), "{reply}");
    assert!(ours.is_frozen() && theirs.is_frozen());
}

/// As where the service manager replaced the group's owner: the next look thaws.
#[test]
fn a_thaw_that_fails_is_tried_again() {
    let (Some(ours), Some(theirs)) = (workload(), workload()) else { return };
    ours.give_right(NOBODY);
    let gated = Gated::start_unprivileged(&format!("/{}', '/{}", ours.name, theirs.name), LIMIT);
    gated.ask(GateRequest::Freeze);
    assert!(ours.is_frozen());
    ours.take_right();
    let reply = gated.ask(GateRequest::Thaw);
    assert!(
        reply.starts_with(&format!("error: cannot thaw {}: ", ours.group.display())),
        "{reply}"
    );
    assert!(ours.is_frozen() && list_file(&gated.socket()).exists());
    ours.give_right(NOBODY);
    ours.await_thaw("the right was taken and given");
    let begun = Instant::now();
    while list_file(&gated.socket()).exists() {
        assert!(begun.elapsed() < THAWED_IN, "the list of a thawed group stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The watcher may thaw before the daemon has counted its limit: a thaw from outside.
#[test]
fn a_gate_that_another_process_opened_is_open() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), "60s");
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    // The unit's last command, after a second start that failed: this daemon lives.
    assert!(thawed_by_the_unit(&gated.file));
    assert!(workload.is_frozen());
    thaw_listed(&GroupTree::of_this_process().unwrap(), &list_file(&gated.socket())).unwrap();
    let begun = Instant::now();
    while gated.gate_status().state != GateState::Overdue {
        assert!(begun.elapsed() < THAWED_IN, "closed, and nothing is frozen");
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = gated.status();
    assert!(status.gate.unwrap().trouble.unwrap().contains("thawed the groups"));
    let opened = status.recent.iter().find(|line| line.event == "gate opened").unwrap();
    assert!(opened.message.contains("another process thawed"), "{}", opened.message);
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    assert!(workload.is_frozen());
}

#[test]
fn more_clients_than_may_wait_are_refused() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), LIMIT);
    gated.ask(GateRequest::Freeze);
    let socket = gated.socket();
    let thaws: Vec<_> = (0..17)
        .map(|_| {
            let socket = socket.clone();
            std::thread::spawn(move || {
                ask(&socket, GateRequest::Thaw, Duration::from_secs(60)).unwrap_or_default()
            })
        })
        .collect();
    let replies: Vec<_> = thaws.into_iter().map(|thaw| thaw.join().unwrap()).collect();
    let count = |reply: &str| replies.iter().filter(|one| *one == reply).count();
    assert_eq!(count("error: too many clients wait for the gate to open"), 1, "{replies:?}");
    assert_eq!(count("error: open, but the clock is not known to be right"), 16, "{replies:?}");
}

#[test]
fn an_ordinary_end_thaws() {
    let Some(workload) = workload() else { return };
    let mut gated = Gated::start(&format!("/{}", workload.name), "60s");
    gated.ask(GateRequest::Freeze);
    assert!(workload.is_frozen());
    end(&gated.running.0);
    assert_eq!(gated.running.0.wait().unwrap().code(), Some(0));
    assert!(!workload.is_asked_to_freeze());
}

/// Sends the time until the delay is over: a gate opens by one that came after the request.
fn send_time_for(delay: Duration, to: &Path) {
    let begun = Instant::now();
    while begun.elapsed() < delay {
        send_time(to);
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The delay of each kill is drawn over all that a freeze takes, from the request to a time
/// when the gate is closed, or a thaw: each step is hit. 60 of each, or a thousand with
/// `PARACHRON_LONG=1`.
#[test]
fn nothing_stays_frozen_after_a_kill_at_any_step() {
    let Some(workload) = workload() else { return };
    let entry = format!("/{}", workload.name);
    let mut was_frozen = [0_u32; 2];
    let kills = size(120_u64, 2000);
    for kill in 0..kills {
        let mut gated = Gated::start(&entry, "60s");
        let is_thaw = kill % 2 == 1;
        let request = if is_thaw { GateRequest::Thaw } else { GateRequest::Freeze };
        if is_thaw {
            assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
        }
        let socket = gated.socket();
        let asks = std::thread::spawn(move || {
            ask(&socket, request, Duration::from_secs(60)).unwrap_or_default()
        });
        // From 0 to 12 ms, or from 0 to 5, in steps that leave no gap.
        if is_thaw {
            let delay = Duration::from_micros(kill * 517 % 5000);
            send_time_for(delay, &gated.folder.path().join("host.sock"));
        } else {
            std::thread::sleep(Duration::from_micros(kill * 7919 % 12_000));
        }
        let watcher = gated.watcher();
        let frozen = &mut was_frozen[usize::from(is_thaw)];
        match kill % 3 {
            // The watcher thaws.
            0 => gated.kill(),
            // The daemon thaws as it ends.
            1 => {
                watcher.into_iter().for_each(kill_process);
                // A thaw is replied to once the clock is measured, or at the end.
                while !is_thaw && !asks.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                *frozen += u32::from(workload.is_asked_to_freeze());
                end(&gated.running.0);
                gated.running.0.wait().unwrap();
                assert!(!workload.is_asked_to_freeze(), "kill {kill}: the watcher alone");
                asks.join().unwrap();
                continue;
            }
            // Both: the service manager's last command thaws.
            _ => {
                watcher.into_iter().for_each(kill_process);
                gated.kill();
                *frozen += u32::from(workload.is_asked_to_freeze());
                assert!(thawed_by_the_unit(&gated.file));
                assert!(!workload.is_asked_to_freeze(), "kill {kill}: both");
            }
        }
        *frozen += u32::from(workload.is_asked_to_freeze());
        workload.await_thaw(&format!("kill {kill}"));
        asks.join().unwrap();
    }
    println!("of {kills} kills {was_frozen:?} hit a frozen workload, in a freeze and in a thaw");
    assert!(!was_frozen.contains(&0), "no kill hit a frozen workload: {was_frozen:?}");
}

/// Runs a program with a configuration where no cgroup v2 is mounted.
const WITHOUT_CGROUP2: &str = "while at=$(awk '/ - cgroup2 /{print $5; exit}' \
    /proc/self/mountinfo) && [ -n \"$at\" ]; do umount -l \"$at\" || exit 77; done; \
    exec \"$0\" --config \"$1\"";

fn without_cgroup2(program: &std::ffi::OsStr, file: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", WITHOUT_CGROUP2]);
    command.arg(program).arg(file).stdin(Stdio::null()).stderr(Stdio::piped());
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET");
    command
}

#[test]
fn without_cgroup_v2_the_clock_is_kept_and_the_gate_is_not_used() {
    let (folder, file) = Gated::configure("/parachron-test-none", LIMIT);
    let tried = without_cgroup2("true".as_ref(), &file).output();
    let why = match tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).into_owned()),
        Err(why) => Some(why.to_string()),
    };
    if let Some(why) = why {
        // Nobody reads a captured standard error that is closed.
        let _ = writeln!(std::io::stderr(), "skipped: a mount namespace: {why}");
        return;
    }
    let daemon = without_cgroup2(parachrond().get_program(), &file).spawn();
    let mut running = Running(daemon.unwrap());
    let (line, _log) = read_start(&mut running);
    assert!(line.contains("not used: gate: no cgroup v2 is mounted"), "{line}");
    let gated = Gated { folder, file, running };
    let host = gated.folder.path().join("host.sock");
    let begun = Instant::now();
    while gated.status().clock.selected.is_none() {
        assert!(begun.elapsed() < THAWED_IN, "{:?}", gated.status());
        send_time(&host);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gated.status().gate.is_none() && !gated.socket().exists());
}

/// Fills the pipe that is a process's standard error.
fn fill_log(process: u32) {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = fs::OpenOptions::new();
    let path = format!("/proc/{process}/fd/2");
    let mut pipe = options.write(true).custom_flags(flags).open(path).unwrap();
    // Of whole pages: no line fits behind them.
    while pipe.write(&[b'\n'; 4096]).is_ok() {}
}

/// What a daemon logs while its gate is closed is written later: the log's reader may be frozen.
#[test]
fn a_log_that_nobody_reads_keeps_no_gate_closed() {
    let Some(workload) = workload() else { return };
    let (folder, file) = Gated::configure(&format!("/{}", workload.name), LIMIT);
    let mut running = crate::running::started(&file);
    let (_, _unread) = read_start(&mut running);
    let gated = Gated { folder, file, running };
    assert!(gated.ask(GateRequest::Freeze).starts_with("closed: 1 frozen in "));
    fill_log(gated.running.0.id());
    // By the daemon: its watcher, which thaws a second later, sends no reply.
    let reply = gated.ask(GateRequest::Thaw);
    assert_eq!(reply, "error: open, but the clock is not known to be right");
    assert!(!workload.is_frozen());
}

/// Also where `gate` was removed meanwhile.
#[test]
fn the_next_start_thaws_what_was_left() {
    let Some(workload) = workload() else { return };
    for is_gate in [true, false] {
        let mut gated = Gated::start(&format!("/{}", workload.name), "60s");
        gated.ask(GateRequest::Freeze);
        let watcher = gated.watcher().expect("a watcher");
        kill_process(watcher);
        gated.kill();
        assert!(workload.is_asked_to_freeze());
        let text = fs::read_to_string(&gated.file).unwrap();
        if !is_gate {
            let without = text.replace(&format!("['/{}']", workload.name), "[]");
            fs::write(&gated.file, without).unwrap();
        }
        gated.running = started(crate::running::started(&gated.file));
        assert_eq!(gated.status().gate.is_some(), is_gate);
        assert!(!workload.is_asked_to_freeze());
    }
}

/// The daemon hangs, as where it waits for a lock of what it froze: its watcher thaws.
#[test]
fn a_daemon_that_hangs_leaves_nothing_frozen() {
    let Some(workload) = workload() else { return };
    let gated = Gated::start(&format!("/{}", workload.name), LIMIT);
    gated.ask(GateRequest::Freeze);
    let id = rustix::process::Pid::from_child(&gated.running.0);
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    workload.await_thaw("the daemon hangs");
}

#[test]
fn groups_that_vanish_that_are_frozen_and_that_hold_the_daemon() {
    let Some(workload) = workload() else { return };
    // Its own group, or all of them.
    let (_folder, file) = configured("gate = ['/']\ndry-run = false\nchrony = ['makestep']\n");
    let refused = parachrond().arg("--config").arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(i32::from(daemon::program::REFUSED)));
    let log = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(log.contains("contains this daemon"), "{log}");

    // A group that an administrator froze is frozen afterwards too.
    let gated = Gated::start(&format!("/{}", workload.name), LIMIT);
    fs::write(workload.group.join("cgroup.freeze"), "1").unwrap();
    let reply = gated.ask(GateRequest::Freeze);
    assert_eq!(reply, "error: none of the control groups could be frozen");
    gated.ask(GateRequest::Thaw);
    assert!(workload.is_asked_to_freeze());
    fs::write(workload.group.join("cgroup.freeze"), "0").unwrap();

    // A frozen parent: the child is ours to freeze and to thaw, and the parent stays.
    let child = workload.group.join("child");
    fs::create_dir(&child).unwrap();
    fs::write(workload.group.join("cgroup.freeze"), "1").unwrap();
    let of_child = Gated::start(&format!("/{}/child", workload.name), LIMIT);
    assert!(of_child.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    of_child.ask(GateRequest::Thaw);
    assert_eq!(fs::read_to_string(child.join("cgroup.freeze")).unwrap(), "0\n");
    assert!(workload.is_asked_to_freeze());
    fs::write(workload.group.join("cgroup.freeze"), "0").unwrap();

    // One that vanishes while it is frozen.
    assert!(of_child.ask(GateRequest::Freeze).starts_with("closed: 1 frozen"));
    fs::remove_dir(&child).unwrap();
    let reply = of_child.ask(GateRequest::Thaw);
    assert_eq!(reply, "error: open, but the clock is not known to be right");
    assert_eq!(
        of_child.ask(GateRequest::Freeze),
        "error: none of the control groups could be frozen"
    );
}
