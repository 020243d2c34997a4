//! A process that puts the clock source back, whatever happens to the one
//! that switched it.
//!
//! The switching process starts the guard before it changes anything, and
//! keeps a pipe to it. When the pipe ends, by design or because the process
//! was killed, panicked or interrupted, the guard writes the first source,
//! reads it back, and ends. It is in a session of its own and ignores the
//! signals that a terminal or a shutdown sends, so what kills the one does
//! not kill the other; SIGKILL to both, and pulling the plug, remain.
//!
//! The guard also holds a lock on the kernel's file, so that two programs do
//! not take each other's trial for the source to restore.
//!
//! # Invariants
//! 1. `signal` with SIG_IGN or SIG_DFL installs no code to run: it is safe
//!    for any signal and in any thread.
#![allow(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::clocksource_switch::{SwitchError, Switchboard};

/// What the guard says when it stands.
const READY: &str = "ready";
/// What it is told when all went well.
const DONE: u8 = b'.';

/// Signals that end a process and can be ignored.
const ENDING: [libc::c_int; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Signals by which a terminal stops a process.
const STOPPING: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Why the guard does not stand, or did not restore.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// It could not be started or talked to.
    #[error("cannot start the process that will restore the clocksource: {0}")]
    Start(std::io::Error),
    /// It started, and declined: its own words.
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
}

impl RestoreGuard {
    /// Starts `program`, which runs [`stand`] on its standard input and
    /// output, and waits until it stands. From here on a terminal cannot
    /// stop this process (Ctrl-Z), as it would with another source in use.
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
        let mut says = String::new();
        let read = match guard.stdout.take() {
            Some(output) => BufReader::new(output).read_line(&mut says),
            None => Ok(0),
        };
        let this = Self { guard, pipe };
        read.map_err(GuardError::Start)?;
        if says.trim() != READY {
            return Err(GuardError::Declined(says.trim().to_owned()));
        }
        set_signals(&STOPPING, libc::SIG_IGN);
        Ok(this)
    }

    /// Has the guard check that the source is restored, and waits for it.
    ///
    /// # Errors
    /// [`GuardError::Failed`].
    pub fn finish(mut self) -> Result<(), GuardError> {
        if let Some(mut pipe) = self.pipe.take() {
            // A guard that is gone is seen by its exit status.
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
        set_signals(&STOPPING, libc::SIG_DFL);
    }
}

/// How the guard's watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The switching process had restored the source itself.
    Done,
    /// It ended early.
    Abandoned,
    /// The guard could not begin, and has told whoever started it why.
    Declined,
}

/// The guard process's life: stands guard over `source` until `input` ends,
/// then restores it, and says how the watch ended.
///
/// # Errors
/// What kept it from restoring.
pub fn stand(
    board: &Switchboard,
    source: &str,
    input: impl Read,
    output: impl Write,
) -> Result<Watch, SwitchError> {
    // Its own session: no terminal, and not in the group that Ctrl-C and
    // `kill -9 -- -GROUP` reach. A session's leader already is in its own.
    let _ = rustix::process::setsid();
    set_signals(&ENDING, libc::SIG_IGN);
    set_signals(&STOPPING, libc::SIG_IGN);
    watch(board, source, input, output)
}

fn watch(
    board: &Switchboard,
    source: &str,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<Watch, SwitchError> {
    let lock = match begin(board, source) {
        Ok(lock) => lock,
        Err(why) => {
            // Nothing is switched yet, so nobody left to hear it is no harm.
            let _ = writeln!(output, "{why}");
            return Ok(Watch::Declined);
        }
    };
    let said = writeln!(output, "{READY}");
    let mut last = Vec::new();
    // An error is an end too.
    let _ = input.read_to_end(&mut last);
    // One that cannot be read is not known to be restored either.
    if !board.current().is_ok_and(|current| current == source) {
        board.switch_to(source)?;
    }
    drop(lock);
    // Nobody read that we stood: whoever started us is gone already.
    let done = said.is_ok() && last == [DONE];
    Ok(if done { Watch::Done } else { Watch::Abandoned })
}

/// Takes the lock, and looks only then: before it, another program's trial
/// may have been the source in use, and is none to restore.
fn begin(board: &Switchboard, source: &str) -> Result<std::fs::File, String> {
    let lock = board.lock().map_err(|error| error.to_string())?;
    let current = board.current().map_err(|error| error.to_string())?;
    if current != source {
        return Err(format!("the clocksource has just been changed from {source} to {current}"));
    }
    Ok(lock)
}

fn set_signals(signals: &[libc::c_int], disposition: libc::sighandler_t) {
    for &signal in signals {
        // SAFETY: invariant 1.
        unsafe { libc::signal(signal, disposition) };
    }
}

#[cfg(test)]
mod tests;
