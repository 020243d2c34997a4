//! A process that thaws what the daemon has frozen, once the daemon is gone or hangs: a
//! child with a pipe, of which the daemon has the only other end.
//!
//! The pipe ends when the daemon is killed, whatever kills it. While the gate is closed the
//! daemon sends [`HOLD`] whenever the limit begins again, and [`OPEN`] when it is over; after
//! the limit and [`MARGIN`] without either the watcher thaws too: the daemon may be blocked
//! by a process that it froze itself.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::control_groups::GroupTree;
use super::frozen_list::thaw_listed;

/// The program's option that makes it a watcher, with the file and the limit in ms.
pub const WATCHER_OPTION: &str = "watch-gate";

const HOLD: u8 = b'h';
const OPEN: u8 = b'o';

/// What the watcher gives the daemon beyond its own limit.
const MARGIN: Duration = Duration::from_secs(1);

/// It counts in waits of this: a pause that the clock counts is one of them.
const WAIT: Duration = Duration::from_millis(100);

/// The daemon's end.
#[derive(Debug)]
pub(super) struct GateWatcher {
    child: Child,
    pipe: ChildStdin,
}

impl GateWatcher {
    /// Starts one.
    ///
    /// # Errors
    /// No process can be started.
    pub(super) fn start(program: &Path, file: &Path, limit: Duration) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg(format!("--{WATCHER_OPTION}"))
            .arg(file)
            .arg(limit.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal's Ctrl-C ends the daemon, and not what is to outlive it.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Self { child, pipe })
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The limit begins.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn hold(&mut self) -> io::Result<()> {
        self.pipe.write_all(&[HOLD])
    }

    /// The gate is open.
    pub(super) fn open(&mut self) {
        // One that is gone has thawed.
        let _ = self.pipe.write_all(&[OPEN]);
    }
}

impl Drop for GateWatcher {
    fn drop(&mut self) {
        // It would end with the pipe, later.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The watcher's end: until the daemon is gone.
///
/// # Errors
/// A group could not be thawed.
pub fn watch(file: &Path, limit: Duration) -> io::Result<()> {
    let tree = GroupTree::of_this_process()?;
    let stdin = io::stdin();
    let most = (limit + MARGIN).as_millis() / WAIT.as_millis();
    let mut waits = None;
    loop {
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        // With nothing frozen it sleeps until the daemon writes, or ends.
        let timeout = waits.map(|_: u128| Timespec { tv_sec: 0, tv_nsec: WAIT.as_nanos() as i64 });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => {
                waits = waits.map(|waits| waits + 1);
                if waits.is_some_and(|waits| waits >= most) {
                    // What cannot be thawed now is tried again.
                    waits = thaw_listed(&tree, file).is_err().then_some(0);
                }
            }
            Ok(_) => {
                let mut bytes = [0; 64];
                match rustix::io::read(&stdin, &mut bytes) {
                    Ok(0) => break,
                    Ok(length) => waits = (bytes[length - 1] == HOLD).then_some(0),
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    thaw_listed(&tree, file).map(drop)
}
