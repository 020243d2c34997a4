//! A page of a file or device, mapped.
//!
//! # Invariants of the unsafe code
//! 1. A mapping is [`BYTES`] long and shared, made here and unmapped only at
//!    drop; it is accessed by [`Mapping::page`] alone, and `pvclock`'s pages
//!    are atomic words, which expect another party's writes.
//! 2. A [`Page`] is no longer than a mapping (asserted). Where the file behind
//!    it is shorter than a page, the rest of the page is zero (mmap(2)); one
//!    that is cut off while it is mapped is a SIGBUS: whoever may write a
//!    file that is mapped may end this process, and do no more.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use pvclock::PageError;
use pvclock::shared::{self, Page};

/// The length of a mapping.
pub(crate) const BYTES: usize = 4096;

/// A mapped page. Nothing here allocates, so that a signal handler may use it.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: *mut libc::c_void,
}

// SAFETY: the mapping is atomic words that any thread may access (invariant 1).
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the beginning of `file`.
    pub(crate) fn new(file: &File, is_writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping, placed by the kernel where nothing is.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address })
    }

    /// The mapping as a page.
    pub(crate) fn page<P: Page>(&self) -> Result<&P, PageError> {
        const { assert!(size_of::<P>() <= BYTES) };
        // SAFETY: mapped for as long as `self`, and long enough (invariants 1
        // and 2).
        unsafe { shared::page_at(self.address.cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no longer used (invariant 1).
        unsafe { libc::munmap(self.address, BYTES) };
    }
}
