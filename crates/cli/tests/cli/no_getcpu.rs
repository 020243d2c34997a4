//! The program where the kernel's vDSO lacks `getcpu`, as User-mode Linux 7.2's
//! does: a library that asserts each of its functions is there panics.
//!
//! # Invariants
//! 1. `ptrace` is called with requests that take no addresses of ours, for a
//!    child that asked to be traced and is stopped.
//! 2. `waitpid` writes one `c_int`, a live local.
#![allow(unsafe_code)]

use std::fs::{File, read_to_string};
use std::io::{Error, Write as _};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

const NAME: &[u8] = b"__vdso_getcpu\0";

fn ptrace(request: libc::c_uint, pid: libc::pid_t) -> Result<(), Error> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: invariant 1.
    match unsafe { libc::ptrace(request, pid, none, none) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Starts the program and stops it before its first instruction.
fn stopped() -> Result<Child, Error> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parachron"));
    command.args(["bench", "--list"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0)) };
    let child = command.spawn()?;
    let mut status = 0;
    // SAFETY: invariant 2.
    unsafe { libc::waitpid(child.id().cast_signed(), &raw mut status, 0) };
    assert!(libc::WIFSTOPPED(status), "not stopped: status {status:#x}");
    Ok(child)
}

/// Gives the function another name in the child's own copy of the vDSO.
fn hide_getcpu(child: &Child) -> Result<bool, Error> {
    let maps = read_to_string(format!("/proc/{}/maps", child.id()))?;
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return Ok(false) };
    let range = line.split([' ', '-']).take(2).map(|hex| u64::from_str_radix(hex, 16));
    let range: Vec<u64> = range.collect::<Result<_, _>>().map_err(Error::other)?;
    let memory =
        File::options().read(true).write(true).open(format!("/proc/{}/mem", child.id()))?;
    let mut vdso = vec![0; (range[1] - range[0]) as usize];
    memory.read_exact_at(&mut vdso, range[0])?;
    let Some(at) = vdso.windows(NAME.len()).position(|name| name == NAME) else {
        return Ok(false);
    };
    memory.write_all_at(b"__vdso_hidden\0", range[0] + at as u64)?;
    Ok(true)
}

#[test]
fn clocks_are_read_without_getcpu_in_the_vdso() {
    let mut child = match stopped() {
        Ok(child) => child,
        Err(error) => {
            return writeln!(std::io::stderr(), "skipped: a child cannot be traced here: {error}")
                .unwrap();
        }
    };
    match hide_getcpu(&child) {
        Ok(true) => {}
        other => {
            child.kill().unwrap();
            child.wait().unwrap();
            return writeln!(
                std::io::stderr(),
                "skipped: the vDSO cannot be changed here: {other:?}"
            )
            .unwrap();
        }
    }
    ptrace(libc::PTRACE_DETACH, child.id().cast_signed()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // A container may hide the clock sources, and then none is known.
    let expected = if Path::new(CLOCKSOURCES).exists() { 0 } else { 2 };
    assert_eq!(output.status.code(), Some(expected), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
