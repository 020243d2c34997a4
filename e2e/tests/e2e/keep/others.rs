//! `parachron keep` beside others that keep the clock, itself among them.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command};

use e2e::{Case, Need, Program, Said};

use super::service::{Running, a_minute_ahead, tell, without_capability};

pub(crate) const CASES: &[Case] = &[
    Case { name: "keep_refuses_to_fight_chronyd", needs: &[], run: keep_refuses_to_fight },
    Case {
        name: "keep_refuses_a_second_keeper",
        needs: &[Need::Root, Need::Tool("setpriv")],
        run: keep_refuses_a_second,
    },
    Case { name: "keep_stands_aside", needs: &[], run: keep_stands_aside },
];

/// A process that has a clock keeper's name, and sleeps.
struct Sleeper {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Sleeper {
    fn called(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(name);
        fs::copy("/bin/sleep", &path).expect("sleep can be copied");
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

/// Whatever else keeps this machine's clock may, but for chronyd and ntpd-rs.
const BESIDE_OTHERS: [&str; 10] = [
    "--beside",
    "ntpd",
    "--beside",
    "openntpd",
    "--beside",
    "systemd-timesyncd",
    "--beside",
    "linux-ptp",
    "--beside",
    "virtual-box-service",
];

fn keep_refuses_to_fight(program: &Program) {
    let _chronyd = Sleeper::called("chronyd");
    let server = ["--dry-run", "--ntp", "127.0.0.1:9", "--duration", "1ms", "--beside", "ntpd-rs"];
    let arguments = [&["keep"], &server[..], &BESIDE_OTHERS].concat();
    let said = program.run(&arguments);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("chrony keeps this clock already"), "{}", said.err);
    assert!(said.err.contains("try: --chrony makestep"), "{}", said.err);
    // The process is asleep: nothing is answered, and nothing else is wrong.
    for allowed in [["--beside", "chrony"], ["--chrony", "makestep"]] {
        let said = program.run(&[&arguments[..], &allowed].concat());
        assert!(said.err.contains("no source answered"), "{}", said.err);
        assert!(said.out.contains("beside: chrony"), "{}", said.out);
    }
}

/// A clock keeper that is started later is left alone.
fn keep_stands_aside(program: &Program) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("host.sock");
    let host = ["--dry-run", "--format", "json", "--beside", "chrony", "--host-socket"];
    let arguments = [&["keep"], &BESIDE_OTHERS[..], &host, &[socket.to_str().unwrap()]].concat();
    let mut running = Running::start(program.command(&arguments));
    let _other = Sleeper::called("ntp-daemon");
    tell(&socket, &a_minute_ahead());
    assert_eq!(running.until("stands-aside")["keeper"], "ntpd-rs");
    assert_eq!(running.end()["steps"], 0);
}

/// One keeper that corrects at a time; none of those here may set the clock.
fn keep_refuses_a_second(program: &Program) {
    let name = SocketAddr::from_abstract_name("parachron-keep").expect("a short name");
    let held = UnixDatagram::bind_addr(&name).expect("no keeper runs beside the tests");
    let beside = ["--beside", "chrony", "--beside", "ntpd-rs"];
    let server = ["--ntp", "127.0.0.1:9", "--duration", "1ms"];
    let arguments = [&["keep"], &BESIDE_OTHERS[..], &beside, &server].concat();
    let run = |arguments: &[&str]| {
        let output = without_capability(program, arguments).output().expect("setpriv runs");
        Said::from(output)
    };
    let second = run(&arguments);
    assert_eq!(second.code, Some(2), "{}", second.out);
    for expected in ["another `parachron keep` keeps this clock", "try: ", "--dry-run"] {
        assert!(second.err.contains(expected), "{}", second.err);
    }
    let dry = run(&[&arguments[..], &["--dry-run"]].concat());
    assert!(dry.err.contains("no source answered"), "{}", dry.err);
    drop(held);
    // Alone, it gets as far as its permission.
    assert!(run(&arguments).err.contains("CAP_SYS_TIME"));
}
