//! `parachron status -w`, beside a socket that answers as a daemon does.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use daemon::status::{ClockReport, DaemonStatus, NextAction, NextStatus};
use daemon::status_socket::parse;
use keeper::KeeperClockState;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::shared;

/// What a daemon would know that is asked for the nth time: each time something else.
fn status(asked: u32) -> DaemonStatus {
    DaemonStatus {
        version: "0.2.0".into(),
        pid: 7,
        dry_run: false,
        would_have_moved_ns: 0,
        at_unix_ns: Some(1_795_242_707_000_000_000),
        running_s: f64::from(asked),
        clock: ClockReport {
            state: KeeperClockState::Synchronised,
            selected: Some("ntp a.example".into()),
            offset_ns: Some(i64::from(asked) * 1_000),
            bound_ns: Some(50_000),
            kernel: None,
        },
        sources: Vec::new(),
        beside: None,
        chronyd_error: None,
        gate: None,
        next: NextStatus { action: NextAction::Wait, by_ns: None, why: None },
        recent: [].into(),
        counts: keeper::event::KeeperSummary::default(),
        disrupted_age_s: [].into(),
    }
}

/// Ours, which is not left behind.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watching(socket: &Path, more: &[&str]) -> Watching {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parachron"));
    command.args(["status", "-w", "--socket"]).arg(socket).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Watching(command.spawn().unwrap())
}

/// Of a child that has no CPU. Without a reply it gives up sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Replies to the next who asks; when that was.
fn reply(listener: &UnixListener, asked: u32, bound_ns: Option<u64>) -> Instant {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(at) = reply_if_asked(listener, asked, bound_ns) {
            return at;
        }
        assert!(Instant::now() < end, "nobody asked within {PATIENCE:?}");
    }
}

/// Replies to who asks by now, or within 5 ms, for a clock that is right within that bound.
fn reply_if_asked(listener: &UnixListener, asked: u32, bound_ns: Option<u64>) -> Option<Instant> {
    listener.set_nonblocking(true).unwrap();
    let (mut client, _) = match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            std::thread::sleep(Duration::from_millis(5));
            return None;
        }
        accepted => accepted.unwrap(),
    };
    let at = Instant::now();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = [0; 64];
    let length = client.read(&mut request).unwrap();
    assert_eq!(parse(&request[..length]), Ok(bound_ns));
    client.write_all(serde_json::to_string(&status(asked)).unwrap().as_bytes()).unwrap();
    Some(at)
}

/// Its exit code, and what it said of a failure.
fn ended(mut watching: Watching) -> (Option<i32>, String) {
    let mut said = String::new();
    watching.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (watching.0.wait().unwrap().code(), said)
}

fn interrupt(watching: &Watching) {
    kill_process(Pid::from_child(&watching.0), Signal::INT).unwrap();
}

#[test]
fn it_looks_again_each_second_until_ctrl_c() {
    let _beside_others = shared(&[]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut watching = watching(&socket, &[]);
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut asked_at = Vec::new();
    for asked in 1..=3 {
        asked_at.push(reply(&listener, asked, None));
        let clock = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("clock: "));
        let expected =
            format!("clock: synchronised; offset +{asked}.00 µs ± 50.0 µs, selected ntp a.example");
        assert_eq!(clock.as_deref(), Some(expected.as_str()), "look {asked}");
    }
    // By its own clock: what kept it from a look brings the next one nearer.
    let looks = asked_at[2] - asked_at[0];
    assert!(looks >= Duration::from_millis(1500), "three looks within {looks:?}");
    interrupt(&watching);
    // What is no terminal is not erased.
    assert!(lines.map(Result::unwrap).all(|line| !line.contains('\u{1b}')));
    assert_eq!(ended(watching), (Some(0), String::new()));
}

#[test]
fn it_prints_an_object_a_line_and_ends_with_its_reader() {
    let _beside_others = shared(&[]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut watching = watching(&socket, &["--format", "json"]);
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    for asked in 1..=2 {
        reply(&listener, asked, None);
        let line = lines.next().unwrap().unwrap();
        assert_eq!(serde_json::from_str::<DaemonStatus>(&line).unwrap(), status(asked));
    }
    drop(lines);
    // Who reads it no more is no failure, and nobody has to end it.
    assert_eq!(ended(watching), (Some(0), String::new()));
}

#[test]
fn a_daemon_that_ends_meanwhile_is_told() {
    let _beside_others = shared(&[]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let watching = watching(&socket, &[]);
    reply(&listener, 1, None);
    drop(listener);
    assert!(UnixStream::connect(&socket).is_err());
    let (code, said) = ended(watching);
    assert_eq!(code, Some(2));
    assert!(said.contains("no daemon is running: nothing listens at"), "{said}");
}

/// One of an earlier version, which takes the plain request alone.
#[test]
fn it_waits_for_a_daemon_that_takes_no_bound() {
    let _beside_others = shared(&[]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parachron"));
    command.args(["status", "--wait", "51us", "--socket"]).arg(&socket);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let met = Watching(command.spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    let mut received = [0; 64];
    let length = stream.read(&mut received).unwrap();
    assert_eq!(parse(&received[..length]), Ok(Some(51_000)));
    stream.write_all(b"{\"error\":\"expected another\"}\n").unwrap();
    drop(stream);
    reply(&listener, 1, None);
    assert_eq!(ended(met), (Some(0), String::new()));
}

/// The clock's error is 51, 52, 53 µs, as it is asked.
#[test]
fn it_waits_until_the_bound_is_met_or_time_is_over() {
    let _beside_others = shared(&[]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let waiting = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parachron"));
        command.args(["status", "--socket"]).arg(&socket).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Watching(command.spawn().unwrap())
    };
    // Nobody listens yet: it waits for the daemon too.
    let met = waiting(&["--wait", "51us"]);
    std::thread::sleep(Duration::from_millis(300));
    let listener = UnixListener::bind(&socket).unwrap();
    reply(&listener, 5, Some(51_000));
    reply(&listener, 1, Some(51_000));
    assert_eq!(ended(met), (Some(0), String::new()));
    let mut late = waiting(&["--wait", "50us", "--timeout", "100ms"]);
    // Twice; once, when it had no CPU for 100 ms.
    reply(&listener, 1, Some(50_000));
    while late.0.try_wait().unwrap().is_none() {
        reply_if_asked(&listener, 1, Some(50_000));
    }
    let (code, said) = ended(late);
    assert_eq!(code, Some(2));
    assert!(said.contains("not yet right within 50µs: synchronised; offset +1.00 µs"), "{said}");
}
