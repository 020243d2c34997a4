//! The kvm-clock page that the kernel maps into every process.
//!
//! Kernels since 6.13 name its mapping `[vvar_vclock]` and put it first
//! there; before, it was the second page of `[vvar]`
//! (arch/x86/entry/vdso/vdso-layout.lds.S). The kernel fills it in only once
//! kvm-clock has been the clock source, and to touch it before is SIGBUS.
//!
//! # Invariants
//! 1. [`Copier`] never dereferences the page. Its address goes to `write`,
//!    for which the kernel checks it: what cannot be read is `EFAULT`, not a
//!    signal.
//! 2. A copy that succeeded shows that the page is mapped here, and it stays
//!    as long as the process: the kernel unmaps it only when the process
//!    enters another time namespace or unmaps it itself
//!    (arch/x86/entry/vdso/vma.c), and nothing in Parachron does either.
//! 3. The page is mapped read-only, and the host's writes are what
//!    `pvclock`'s readers are made for.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use pvclock::kvm_clock::TimePage;
use pvclock::shared;

/// Bytes of the page's structure.
pub const SIZE: usize = 32;
const PAGE_BYTES: usize = 4096;
const MAPS: &str = "/proc/self/maps";

/// The host rewrites the page in well under a microsecond.
const TRIES: usize = 64;

/// Where this process has the page, if the kernel has filled it in.
///
/// # Errors
/// `NotFound`: no mapping of kernel clock data; those of reading the maps.
pub fn address() -> io::Result<usize> {
    find_in_maps(find)
}

/// Where the kernel's own clock data begin ([`crate::kernel_line`]).
pub(crate) fn start() -> io::Result<usize> {
    find_in_maps(|maps| range(maps, "[vvar]").map(|(start, _)| start))
}

fn find_in_maps(find: impl FnOnce(&str) -> Option<usize>) -> io::Result<usize> {
    // The maps name this program's own file, in whatever bytes that is called.
    find(&String::from_utf8_lossy(&std::fs::read(MAPS)?))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mapping of kernel clock data"))
}

/// The page itself, to be read in place: what the vDSO does, done by
/// `pvclock`.
///
/// # Errors
/// Those of [`address`] and [`Copier::read`]: `EFAULT` where the kernel has
/// not filled it in.
pub fn in_place() -> io::Result<&'static TimePage> {
    let address = address()?;
    Copier::new()?.read(address)?;
    let start = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: mapped, for good (invariant 2), and this process does
    // not write to it (3).
    unsafe { shared::page_at(start) }.map_err(|error| io::Error::other(error.to_string()))
}

/// Copies the page through a pipe, as the kernel refuses a bad address where
/// a load of ours would be a signal.
#[derive(Debug)]
pub struct Copier {
    reader: OwnedFd,
    writer: OwnedFd,
    /// What was read last, whole.
    last: Cell<Option<[u8; SIZE]>>,
}

impl Copier {
    /// Opens its pipe.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Self { reader, writer, last: Cell::new(None) })
    }

    /// The bytes of the page at `address`, not torn by the host's writes.
    ///
    /// # Errors
    /// `EFAULT`: the kernel has not filled in the page, as kvm-clock was never
    /// its clock source.
    pub fn read(&self, address: usize) -> io::Result<[u8; SIZE]> {
        // A copy that is as the last whole one was is whole: the host writes
        // rarely, and then another version.
        let mut last = self.last.take();
        for _ in 0..TRIES {
            let next = self.copy(address)?;
            if last == Some(next) && next[0] & 1 == 0 {
                self.last.set(last);
                return Ok(next);
            }
            last = Some(next);
        }
        Err(io::Error::other("it changed during every copy"))
    }

    pub(crate) fn copy(&self, address: usize) -> io::Result<[u8; SIZE]> {
        let start = std::ptr::with_exposed_provenance::<libc::c_void>(address);
        // SAFETY: the kernel reads there on our behalf and checks the address.
        let written = unsafe { libc::write(self.writer.as_raw_fd(), start, SIZE) };
        let written = usize::try_from(written).map_err(|_| io::Error::last_os_error())?;
        // What was written is there, and the pipe is empty again in any case.
        let mut bytes = [0; SIZE];
        let read = rustix::io::read(&self.reader, &mut bytes[..written])?;
        match (written, read) {
            (SIZE, SIZE) => Ok(bytes),
            _ => Err(io::Error::other("only a part of it could be copied")),
        }
    }
}

/// Where the mapping of this name begins and ends.
fn range(maps: &str, name: &str) -> Option<(usize, usize)> {
    let line = maps.lines().find(|line| line.ends_with(name))?;
    let (start, rest) = line.split_once('-')?;
    let end = rest.split(' ').next()?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// The page's address in a text of `/proc/self/maps`.
fn find(maps: &str) -> Option<usize> {
    if let Some((start, _)) = range(maps, "[vvar_vclock]") {
        return Some(start);
    }
    let (start, end) = range(maps, "[vvar]")?;
    (end.checked_sub(start)? >= 2 * PAGE_BYTES).then_some(start + PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_found_in_the_maps_of_old_and_new_kernels() {
        let new = "7f4babaa9000-7f4babaad000 r--p 00000000 00:00 0    [vvar]\n\
                   7f4babaad000-7f4babaaf000 r--p 00000000 00:00 0    [vvar_vclock]\n";
        assert_eq!(find(new), Some(0x7f4babaad000));
        let old = "7ffd0c1f4000-7ffd0c1f8000 r--p 00000000 00:00 0    [vvar]\n";
        assert_eq!(find(old), Some(0x7ffd0c1f5000));
        let oldest = "7ffd0c1f4000-7ffd0c1f5000 r--p 00000000 00:00 0    [vvar]\n";
        assert_eq!(find(oldest), None);
        assert_eq!(find("zz-yy r--p [vvar]\n"), None);
    }

    #[test]
    fn an_address_that_is_not_mapped_is_an_error_and_no_signal() {
        let copied = Copier::new().unwrap().copy(0);
        assert_eq!(copied.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn memory_of_ours_comes_back_as_it_is() {
        let page: [u8; SIZE] = std::array::from_fn(|i| i as u8);
        let copier = Copier::new().unwrap();
        for _ in 0..2 {
            assert_eq!(copier.read(page.as_ptr().expose_provenance()).unwrap(), page);
            // One that cannot be read leaves nothing for the next.
            assert!(copier.read(0).is_err());
        }
    }

    #[test]
    fn the_page_in_place_counts_on() {
        use crate::counter::CpuCounter;
        use pvclock::kvm_clock::TimeReader;
        match in_place() {
            Ok(page) => {
                let reader = TimeReader::new(page);
                let first = reader.nanos_ordered(&CpuCounter).unwrap();
                assert!(reader.nanos_ordered(&CpuCounter).unwrap() >= first);
            }
            Err(why) => crate::cpus::skipped(&why.to_string()),
        }
    }
}
