//! A program whose system calls are refused. The one unsafe call sets up what runs between
//! fork and exec, where nothing may allocate or take a lock.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::program::Program;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// The program where system calls fail with this error number.
pub(crate) fn refused(program: &Program, calls: &[i64], errno: i32, arguments: &[&str]) -> Command {
    let filter: BpfProgram = SeccompFilter::new(
        calls.iter().map(|call| (*call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        std::env::consts::ARCH.try_into().expect("a known processor"),
    )
    .and_then(TryInto::try_into)
    .expect("a filter");
    let mut command = program.command(arguments);
    let apply = move || apply_filter(&filter).map_err(|_| io::Error::last_os_error());
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing
    // unless they fail.
    unsafe {
        command.pre_exec(apply);
    }
    command
}
