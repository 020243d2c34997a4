//! Another kernel in place of this one, without firmware in between.
//!
//! # Invariants
//! 1. `kexec_file_load`, which no library has, reads two open files and a string of the
//!    length that it is told, its zero counted (kexec_file_load(2)), and keeps neither.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use rustix::system::{RebootCommand, reboot};

/// Boots another kernel at once (kexec_file_load(2)); returns only with an error, ENOSYS where the
/// kernel has no CONFIG_KEXEC_FILE.
pub(crate) fn boot(kernel: &File, initrd: &File, parameters: &CStr) -> io::Result<()> {
    let (bytes, no_flags) = (parameters.to_bytes_with_nul(), 0_usize);
    // SAFETY: invariant 1: both files are open for as long as the call takes.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            kernel.as_raw_fd(),
            initrd.as_raw_fd(),
            bytes.len(),
            bytes.as_ptr(),
            no_flags,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(reboot(RebootCommand::Kexec)?)
}
