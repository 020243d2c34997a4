//! A process that restores the clock source, whatever happens to the process
//! that switched it.
//!
//! The switching process starts the guard before it changes anything, and
//! keeps a pipe to it. When the pipe closes, by design or because the process
//! was killed, panicked or interrupted, the guard writes the first source,
//! reads it back, and exits. It has a session of its own and ignores the
//! signals that a terminal or a shutdown sends, so what kills the one does
//! not kill the other. SIGKILL to both, and a power cut, remain.
//!
//! The guard also locks the kernel's file, so that no program takes another's
//! trial for the source to restore.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use linux::signals::{Ignored, ignore};
use signal_hook::consts as signal;

use crate::clocksource_switch::{SwitchError, Switchboard};

/// The guard's line once it is ready.
const READY: &str = "ready";
/// The byte sent to it when all went well.
const DONE: u8 = b'.';

/// Signals that end a process and can be ignored.
const ENDING: [i32; 7] = [
    signal::SIGINT,
    signal::SIGTERM,
    signal::SIGHUP,
    signal::SIGQUIT,
    signal::SIGPIPE,
    signal::SIGUSR1,
    signal::SIGUSR2,
];

/// Signals by which a terminal stops a process.
const STOPPING: [i32; 3] = [signal::SIGTSTP, signal::SIGTTIN, signal::SIGTTOU];

/// Why the guard did not start, or did not restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// It could not be started, or its pipe failed.
    #[error("cannot start the process that will restore the clocksource: {0}")]
    Start(std::io::Error),
    /// It started, and declined: its reason.
    #[error("the process that will restore the clocksource does not start: {0}")]
    Declined(String),
    /// It ended without success.
    #[error("the process that restores the clocksource failed: {0}")]
    Failed(std::process::ExitStatus),
}

/// The switching process's end.
#[derive(Debug)]
pub struct RestoreGuard {
    guard: Child,
    pipe: Option<ChildStdin>,
    /// Put back as they were once the guard has ended.
    stopping: Option<Ignored>,
}

impl RestoreGuard {
    /// Starts `program`, which runs [`restore_on_eof`] on its standard input
    /// and output, and waits until it is ready. From here on Ctrl-Z does not
    /// stop this process, which would leave another source in use.
    ///
    /// # Errors
    /// [`GuardError::Start`], [`GuardError::Declined`].
    pub fn start(mut program: Command) -> Result<Self, GuardError> {
        let mut guard = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(GuardError::Start)?;
        let pipe = guard.stdin.take();
        let mut line = String::new();
        let read = match guard.stdout.take() {
            Some(output) => BufReader::new(output).read_line(&mut line),
            None => Ok(0),
        };
        let mut this = Self { guard, pipe, stopping: None };
        read.map_err(GuardError::Start)?;
        if line.trim() != READY {
            return Err(GuardError::Declined(line.trim().to_owned()));
        }
        this.stopping = Some(ignore(&STOPPING));
        Ok(this)
    }

    /// Makes the guard check that the source is restored, and waits for it.
    ///
    /// # Errors
    /// [`GuardError::Failed`].
    pub fn finish(mut self) -> Result<(), GuardError> {
        if let Some(mut pipe) = self.pipe.take() {
            // If the guard is gone, its exit status shows it.
            let _ = pipe.write_all(&[DONE]);
        }
        match self.guard.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(GuardError::Failed(status)),
            Err(error) => Err(GuardError::Start(error)),
        }
    }
}

impl Drop for RestoreGuard {
    /// Without [`RestoreGuard::finish`] the guard restores at once.
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.guard.wait();
        self.stopping = None;
    }
}

/// How a guard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardOutcome {
    /// The switching process had restored the source itself.
    Done,
    /// It ended early.
    Abandoned,
    /// The guard could not begin, and has sent the reason.
    Declined,
}

/// The guard process: waits until `input` ends, then restores `source`.
///
/// # Errors
/// Why it could not restore.
pub fn restore_on_eof(
    board: &Switchboard,
    source: &str,
    input: impl Read,
    output: impl Write,
) -> Result<GuardOutcome, SwitchError> {
    // Its own session: no terminal, and not in the group that Ctrl-C and
    // `kill -9 -- -GROUP` reach. A session's leader already is in its own.
    let _ = rustix::process::setsid();
    // For good: nothing may end this process before its exit code is told.
    std::mem::forget((ignore(&ENDING), ignore(&STOPPING)));
    guard(board, source, input, output)
}

fn guard(
    board: &Switchboard,
    source: &str,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<GuardOutcome, SwitchError> {
    let lock = match begin(board, source) {
        Ok(lock) => lock,
        Err(why) => {
            // Nothing is switched yet, so a closed pipe does no harm.
            let _ = writeln!(output, "{why}");
            return Ok(GuardOutcome::Declined);
        }
    };
    let sent = writeln!(output, "{READY}");
    let mut last = Vec::new();
    // An error is an end too.
    let _ = input.read_to_end(&mut last);
    // A source that cannot be read may not be restored either.
    if !board.current().is_ok_and(|current| current == source) {
        board.switch_to(source)?;
    }
    drop(lock);
    // If nobody read that we are ready, our parent is gone already.
    let done = sent.is_ok() && last == [DONE];
    Ok(if done { GuardOutcome::Done } else { GuardOutcome::Abandoned })
}

/// Takes the lock and only then reads the source: before, another program's
/// trial may have been in use, which is not the one to restore.
fn begin(board: &Switchboard, source: &str) -> Result<std::fs::File, String> {
    let lock = board.lock().map_err(|error| error.to_string())?;
    let current = board.current().map_err(|error| error.to_string())?;
    if current != source {
        return Err(format!("the clocksource has just been changed from {source} to {current}"));
    }
    Ok(lock)
}

#[cfg(test)]
mod tests;
