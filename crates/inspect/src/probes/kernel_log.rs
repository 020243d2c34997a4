//! The kernel's log: from the kernel, or where that is refused, from a log file.
//!
//! # Safety
//!
//! `klogctl` fills at most the stated length of a buffer that it is given,
//! and returns the length filled (`man 3 klogctl`).
#![allow(unsafe_code)]

use std::cell::OnceCell;

use crate::tree::Files;
use facts::{Fact, Unknown};

/// `SYSLOG_ACTION_READ_ALL` and `SYSLOG_ACTION_SIZE_BUFFER`
/// (include/linux/syslog.h).
const READ_ALL: libc::c_int = 3;
const SIZE_BUFFER: libc::c_int = 10;

/// The part at a log's end that is read; the largest kernel buffers are longer,
/// but lines about clocks are few.
const LIMIT_BYTES: u64 = 8 << 20;

const WHAT: &str = "the kernel log";

/// Files that hold the log, in the order they are tried.
const FILES: &[&str] = &["/var/log/kern.log", "/var/log/dmesg"];

/// The kernel's log, read at most once.
#[derive(Debug, Default)]
pub(crate) struct KernelLog {
    text: OnceCell<Fact<String>>,
}

impl KernelLog {
    /// The log's text.
    pub(crate) fn text(&self, files: &Files) -> Fact<String> {
        self.text.get_or_init(|| read(files)).clone()
    }
}

fn read(files: &Files) -> Fact<String> {
    let refused = if files.is_live() {
        match from_kernel() {
            Ok(bytes) => return Fact::Known(text(bytes)),
            Err(error) => crate::unknown_of(WHAT, &error),
        }
    } else {
        Unknown::not_there(WHAT)
    };
    for path in FILES {
        if let Fact::Known(bytes) = files.tail(path, LIMIT_BYTES) {
            return Fact::Known(text(bytes));
        }
    }
    Fact::Unknown(refused)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The kernel's own buffer. `kernel.dmesg_restrict` may forbid it.
fn from_kernel() -> Result<Vec<u8>, std::io::Error> {
    let size = klogctl(SIZE_BUFFER, &mut [])?;
    let mut buffer = vec![0; size.min(LIMIT_BYTES as usize)];
    let filled = klogctl(READ_ALL, &mut buffer)?;
    buffer.truncate(filled);
    Ok(buffer)
}

fn klogctl(action: libc::c_int, buffer: &mut [u8]) -> Result<usize, std::io::Error> {
    let length = libc::c_int::try_from(buffer.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer and length are of one buffer that is ours to fill.
    let result = unsafe { libc::klogctl(action, buffer.as_mut_ptr().cast(), length) };
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error())
}
