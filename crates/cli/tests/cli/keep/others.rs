//! `parachron keep` with other time daemons, itself among them.

use std::path::Path;
use std::process::{Child, Command};

use crate::need::Need;
use crate::program::{ProgramOutput, alone, copy_program};
use linux::file_lock::FileLock;

use super::service::{Running, a_minute_ahead, send, without_capability};

/// A process with a time daemon's name that sleeps; root's, it may set the clock.
struct Sleeper {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Sleeper {
    fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(name);
        copy_program(Path::new("/bin/sleep"), &path);
        let child = Command::new(path).arg("600").spawn().expect("the copy starts");
        Self { child, _folder: folder }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Any other time daemon of this machine may run, but for chronyd and ntpd-rs.
const ALLOWED: [&str; 2] =
    ["--allow-daemon", "ntpd,openntpd,systemd-timesyncd,linux-ptp,virtual-box-service"];

#[test]
fn keep_only_steps_beside_chronyd() {
    let Some(program) = &alone(&[Need::Root]) else { return };
    let _chronyd = Sleeper::named("chronyd");
    let server =
        ["--dry-run", "--ntp", "127.0.0.1:9", "--duration", "1ms", "--allow-daemon", "ntpd-rs"];
    let arguments = [&["keep"], &server[..], &ALLOWED].concat();
    // The process sleeps: no source replies, and nothing else is wrong.
    for (more, expected) in [
        (&[][..], "so this one only steps"),
        (&["--allow-daemon", "chrony"], "slews offsets up to"),
        (&["--chrony", "makestep"], "makestep"),
    ] {
        let said = program.run(&[&arguments[..], more].concat());
        assert!(said.err.contains("no source replied"), "{}", said.err);
        assert!(said.out.contains("other daemons: chrony"), "{}", said.out);
        assert!(said.out.contains(expected), "{}", said.out);
    }
}

#[test]
fn keep_steps_beside_a_daemon_that_starts_later() {
    let Some(program) = &alone(&[Need::Root]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("host.sock");
    let host = ["--dry-run", "--format", "json", "--allow-daemon", "chrony", "--host-socket"];
    let arguments = [&["keep"], &ALLOWED[..], &host, &[socket.to_str().unwrap()]].concat();
    let mut running = Running::start(program.command(&arguments));
    let _other = Sleeper::named("ntp-daemon");
    // It reads the names of all processes once a second at most.
    std::thread::sleep(std::time::Duration::from_secs(1));
    send(&socket, &a_minute_ahead());
    assert_eq!(running.until("daemon-beside")["daemon"], "ntpd-rs");
    assert_eq!(running.end()["steps"], 1);
}

/// One keeper corrects at a time; none of those here may set the clock.
#[test]
fn keep_refuses_a_second_keeper() {
    let Some(program) = &alone(&[Need::Root, Need::Tool("setpriv")]) else { return };
    let path = Path::new("/run/parachron/keep.lock");
    let held = FileLock::take(path).expect("root may").expect("no keeper runs during the tests");
    let allowed = ["--allow-daemon", "chrony", "--allow-daemon", "ntpd-rs"];
    let server = ["--ntp", "127.0.0.1:9", "--duration", "1ms"];
    let arguments = [&["keep"], &ALLOWED[..], &allowed, &server].concat();
    let run = |arguments: &[&str]| {
        let output = without_capability(program, arguments).output().expect("setpriv runs");
        ProgramOutput::from(output)
    };
    let second = run(&arguments);
    assert_eq!(second.code, Some(3), "{}", second.out);
    for expected in ["already corrects this clock", "try: ", "--dry-run"] {
        assert!(second.err.contains(expected), "{}", second.err);
    }
    let dry = run(&[&arguments[..], &["--dry-run"]].concat());
    assert!(dry.err.contains("no source replied"), "{}", dry.err);
    drop(held);
    // Alone, it gets as far as its permission.
    assert!(run(&arguments).err.contains("CAP_SYS_TIME"));
}
