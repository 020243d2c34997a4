//! A machine that runs: the line to it, QEMU's protocol where it has one, and
//! the guard that ends it.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::boot::{self, readable};
use crate::checks::Check;
use crate::line::Line;
use crate::qmp::Qmp;
use crate::records::Record;
use crate::{guard, tools};

/// How a base wants a machine to be started.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The hypervisor, which has the machine's console on its standard input
    /// and output.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Its environment beyond this program's.
    pub(crate) environment: Vec<(String, String)>,
    /// The socket of QEMU's protocol, where it has one.
    pub(crate) qmp: Option<PathBuf>,
    /// Wall-clock seconds until it is ended.
    pub(crate) limit_s: u32,
}

/// The file of a console that is not the line.
const CONSOLE: &str = "console.log";

/// The limit of a command that is to take no time, in the machine's seconds.
const EXECUTE_S: u32 = 30;

/// The limit of a command whose output is judged.
const SAYS_S: u32 = 180;

/// A running machine; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its console.
    pub(crate) line: Line,
    /// Its hypervisor's control.
    pub(crate) qmp: Option<Qmp>,
    guard: Child,
    /// The hypervisor's own errors.
    errors: PathBuf,
    /// All that came over the line.
    log: PathBuf,
}

impl Machine {
    /// Starts it under guard; its log and the hypervisor's errors go to a
    /// folder.
    pub(crate) fn start(start: &Start, folder: &Path) -> Result<Self, String> {
        let errors = folder.join("errors");
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let output = theirs.try_clone().map_err(|error| error.to_string())?;
        let file = File::create(&errors).map_err(|error| error.to_string())?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let guard = Command::new(this)
            .args([guard::WORD, &start.limit_s.to_string()])
            .arg(&start.program)
            .args(&start.arguments)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(OwnedFd::from(output)))
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start the guard: {error}"))?;
        let log = folder.join("serial.log");
        let line = Line::over(ours, &log)?;
        let mut machine = Self { line, qmp: None, guard, errors, log };
        if let Some(socket) = &start.qmp {
            let qmp = Qmp::connect(socket).map_err(|why| machine.failure(&why));
            machine.qmp = Some(qmp?);
        }
        Ok(machine)
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn execute(&mut self, line: &str) -> Result<String, String> {
        let Record { status, stdout, stderr, .. } = self.line.run("execute", EXECUTE_S, line)?;
        if status == 0 {
            return Ok(stdout.trim().to_owned());
        }
        Err(format!("{line}: exit code {status}: {}{}", stdout.trim(), stderr.trim()))
    }

    /// A check of what a line prints, whatever its exit code.
    pub(crate) fn says(
        &mut self,
        what: impl Into<String>,
        line: &str,
        is_right: impl FnOnce(&str) -> bool,
    ) -> Result<Check, String> {
        let Record { stdout, stderr, .. } = self.line.run("says", SAYS_S, line)?;
        let said = format!("{stdout}{stderr}").trim().to_owned();
        let passed = is_right(&said);
        Ok(Check::new(what, said, passed))
    }

    /// The process of its hypervisor: what the guard runs.
    pub(crate) fn hypervisor(&self) -> Result<u32, String> {
        let guard = self.guard.id();
        let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"));
        let children = children.map_err(|error| format!("the guard's children: {error}"))?;
        let first = children.split(' ').next().and_then(|id| id.parse().ok());
        first.ok_or_else(|| "the hypervisor has ended".to_owned())
    }

    /// Stops it for a while, and lets it run again.
    pub(crate) fn pause(&mut self, pause: Duration) -> Result<(), String> {
        let qmp = self.qmp.as_mut().ok_or("a pause needs QMP")?;
        qmp.stop()?;
        sleep(pause);
        qmp.cont()
    }

    /// How far its time of day is ahead of this system's, and how well that is
    /// known, s: it was read between two readings of ours.
    pub(crate) fn ahead_s(&mut self) -> Result<(f64, f64), String> {
        self.clocks_ahead_s().map(|([realtime_s, _], bound_s)| (realtime_s, bound_s))
    }

    /// By how much its time of day moved against this system's while something happened, and
    /// how well that is known, s.
    pub(crate) fn moved_s(
        &mut self,
        happens: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(f64, f64), String> {
        let (before_s, before_bound_s) = self.ahead_s()?;
        happens(self)?;
        let (after_s, after_bound_s) = self.ahead_s()?;
        Ok((after_s - before_s, before_bound_s + after_bound_s))
    }

    /// [`Self::ahead_s`] of its time of day and of its CLOCK_MONOTONIC, which begins elsewhere: two
    /// of them show what it lost between them.
    pub(crate) fn clocks_ahead_s(&mut self) -> Result<([f64; 2], f64), String> {
        let mut best = self.clocks_ahead_at_once_s()?;
        for _ in 1..5 {
            let ahead = self.clocks_ahead_at_once_s()?;
            if ahead.1 < best.1 {
                best = ahead;
            }
        }
        Ok(best)
    }

    /// [`Self::ahead_s`] by one look, which takes less time and tells less.
    pub(crate) fn ahead_at_once_s(&mut self) -> Result<(f64, f64), String> {
        self.clocks_ahead_at_once_s().map(|([realtime_s, _], bound_s)| (realtime_s, bound_s))
    }

    fn clocks_ahead_at_once_s(&mut self) -> Result<([f64; 2], f64), String> {
        let before_s = now_s();
        let ticks = self.execute("guest-clock print 10 | head -n 1")?;
        let bound_s = (now_s() - before_s) / 2.0;
        let mut clocks = ticks.split(' ').skip(1).map(|ns| ns.parse::<f64>().ok());
        let ahead_s = |ns: f64| ns / 1e9 - (before_s + bound_s);
        let both = clocks.next().flatten().zip(clocks.next().flatten());
        let both = both.map(|(realtime, monotonic)| [realtime, monotonic].map(ahead_s));
        Ok((both.ok_or_else(|| format!("guest-clock printed {ticks:?}"))?, bound_s))
    }

    /// What happened, the hypervisor's errors, and the end of the console, all of
    /// which is kept beside them.
    pub(crate) fn failure(&self, what: &str) -> String {
        let errors = readable(&fs::read(&self.errors).unwrap_or_default());
        // Where the line is not the console, that is in a file.
        let console = fs::read(self.errors.with_file_name(CONSOLE)).unwrap_or_default();
        let log = self.log.strip_prefix(tools::root()).unwrap_or(&self.log);
        let what = format!("{what} (all of its console: {})", log.display());
        let console = readable(&[console.as_slice(), self.line.tail()].concat());
        boot::failure(&what, &errors, &console)
    }
}

/// This system's time of day, s since 1970.
fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The guard sees that our end of the line was closed.
        self.line.close();
        let _ = self.guard.wait();
    }
}

/// The emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
