//! `machines guard LIMIT_S PROGRAM ARGUMENT…`: runs a hypervisor that does not
//! outlive this run, even if the run is killed. Its standard input is one end
//! of a socket pair whose other end the run holds: when that closes, for
//! whatever reason, the guard ends the hypervisor and all that it started. A guard
//! that is itself killed takes the hypervisor with it. Nor may that set this system's clock: the processes of user-mode Linux are
//! processes of this system that it traces, and one that outlived its kernel
//! went on here with its calls of `clock_settime`.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

/// The first argument that asks for it.
pub(crate) const WORD: &str = "guard";

/// The first argument of the process that becomes the hypervisor; the guard's
/// process follows.
pub(crate) const GUARDED: &str = "guarded";

/// The exit code of a program that cannot be run, as of a shell.
const NOT_RUN: u8 = 127;

/// Its exit code when the limit has passed, as of coreutils' `timeout`.
pub(crate) const TIMED_OUT: u8 = 124;

/// How often it looks whether the hypervisor has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Runs a program under guard; its exit code.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let (Some(limit_s), Some(_)) = (words.first().and_then(|s| s.parse().ok()), words.get(1))
    else {
        eprintln!("usage: machines {WORD} LIMIT_S PROGRAM [ARGUMENT...]");
        return ExitCode::from(2);
    };
    // Whoever may not take it from the hypervisor has none to give
    // (capabilities(7), "Capability bounding set").
    let _ = remove_capability_from_bounding_set(CapabilitySet::SYS_TIME);
    // A group of its own: a Ctrl-C ends the run, and the run's end ends this.
    let child = std::env::current_exe().and_then(|this| {
        let guard = std::process::id().to_string();
        Command::new(this).args([GUARDED, &guard]).args(&words[1..]).process_group(0).spawn()
    });
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot run machines {GUARDED}: {error}");
            return ExitCode::from(NOT_RUN);
        }
    };
    let code = watch(&mut child, Duration::from_secs(limit_s));
    // Also what it left behind.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    code.unwrap_or(ExitCode::FAILURE)
}

/// Becomes a program that is killed when its guard ends.
pub(crate) fn become_guarded(words: &[String]) -> ExitCode {
    let (Some(guard), Some(program)) = (words.first(), words.get(1)) else {
        return ExitCode::from(2);
    };
    // Kept over the exec (PR_SET_PDEATHSIG(2const)).
    let set = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before that.
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if set.is_err() || parent.to_string() != *guard {
        eprintln!("cannot run {program}: its guard has ended");
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(&words[2..]).exec();
    eprintln!("cannot run {program}: {error}");
    ExitCode::from(NOT_RUN)
}

/// Waits for the program, the limit or the end of the run.
fn watch(child: &mut Child, limit: Duration) -> io::Result<ExitCode> {
    let start = Instant::now();
    let input = io::stdin();
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        if start.elapsed() >= limit {
            return Ok(ExitCode::from(TIMED_OUT));
        }
        // Nothing asked for: only that the other end was closed comes back.
        let mut ends = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::empty())];
        match poll(&mut ends, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(ExitCode::FAILURE),
            Err(error) => return Err(error.into()),
        }
    }
}
