//! A page in a file: what is written here another process reads.
//!
//! # Invariants
//! 1. `memory` is a mapping of the page's bytes, shared, readable and
//!    writable, made in `new` and unmapped in `drop` alone.
//! 2. This process accesses it as atomics only: through the page.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io::Write;
use std::path::Path;
use std::ptr;

use pvclock::kvm_clock::{TimeInfo, TimePage};
use pvclock::shared::page_at;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use tempfile::NamedTempFile;

const BYTES: usize = size_of::<TimePage>();

#[derive(Debug)]
pub(crate) struct SharedPage {
    file: NamedTempFile,
    memory: *mut c_void,
}

impl SharedPage {
    pub(crate) fn new(info: &TimeInfo) -> Self {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&info.to_bytes()).unwrap();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, of bytes that the file has, overlaps nothing.
        let memory = unsafe { mmap(ptr::null_mut(), BYTES, protection, flags, &file, 0) };
        Self { memory: memory.unwrap(), file }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn page(&self) -> &TimePage {
        // SAFETY: mapped for as long as `self` lives, and accessed by atomics
        // only (invariants 1 and 2).
        unsafe { page_at(self.memory.cast()) }.unwrap()
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: our mapping, and no page is borrowed any more (invariant 1).
        unsafe { munmap(self.memory, BYTES) }.unwrap();
    }
}
