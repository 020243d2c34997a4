//! A real chronyd of our own, on ports of its own, that never touches this
//! machine's clock (`-x`).

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// chronyd, until it is dropped.
#[derive(Debug)]
pub(crate) struct Chronyd {
    child: Child,
    /// Where it serves time.
    pub(crate) ntp: SocketAddr,
    /// Where it answers questions.
    pub(crate) command: SocketAddr,
    folder: tempfile::TempDir,
}

impl Chronyd {
    /// Starts one with these lines in its configuration: what it follows.
    ///
    /// # Panics
    /// It could not be started.
    pub(crate) fn start(lines: &str) -> Self {
        Self::start_in(private_folder(), lines)
    }

    /// Starts one that follows the samples it is sent to [`Chronyd::feed`],
    /// each as it comes.
    ///
    /// # Panics
    /// It could not be started.
    pub(crate) fn fed() -> Self {
        let folder = private_folder();
        let path = folder.path().join(FEED);
        let line = format!("refclock SOCK {} refid PRCH poll 0 filter 1", path.display());
        Self::start_in(folder, &line)
    }

    fn start_in(folder: tempfile::TempDir, lines: &str) -> Self {
        let [ntp, command] = [free_port(), free_port()];
        let configuration = format!(
            "port {}\nbindaddress 127.0.0.1\nallow 127.0.0.1\ncmdport {}\n\
             bindcmdaddress 127.0.0.1\nbindcmdaddress {}\npidfile {}\n{lines}\n",
            ntp.port(),
            command.port(),
            folder.path().join(COMMANDS).display(),
            folder.path().join("chronyd.pid").display()
        );
        let path = folder.path().join("chrony.conf");
        fs::write(&path, configuration).expect("our own folder");
        let log = File::create(folder.path().join(LOG)).expect("our own folder");
        let child = Command::new("chronyd")
            .args(["-x", "-d", "-u", "root", "-f"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("chronyd starts");
        let mut chronyd = Self { child, ntp, command, folder };
        chronyd.wait_until_it_listens();
        chronyd
    }

    /// Where it takes commands: a Unix socket.
    pub(crate) fn commands(&self) -> PathBuf {
        self.folder.path().join(COMMANDS)
    }

    /// Where one that is fed takes samples.
    pub(crate) fn feed(&self) -> PathBuf {
        self.folder.path().join(FEED)
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    fn wait_until_it_listens(&mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.commands().exists() {
            let ended = self.child.try_wait().expect("our own child").is_some();
            assert!(!ended && Instant::now() < end, "chronyd does not start: {}", self.log());
            sleep(Duration::from_millis(5));
        }
    }
}

/// Closed to others: else chronyd takes no commands in it.
fn private_folder() -> tempfile::TempDir {
    let closed = fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(closed).tempdir();
    folder.expect("a temporary folder")
}

const COMMANDS: &str = "commands.sock";
const FEED: &str = "feed.sock";
const LOG: &str = "log";

impl Drop for Chronyd {
    fn drop(&mut self) {
        // Ours, and of no use to anybody else.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port of loopback");
    socket.local_addr().expect("our own address")
}
