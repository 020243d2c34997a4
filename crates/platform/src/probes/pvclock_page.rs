//! The kvm-clock page that the kernel maps into every process.
//!
//! Kernels since 6.13 name its mapping `[vvar_vclock]` and put it first
//! there; before, it was the second page of `[vvar]`
//! (arch/x86/entry/vdso/vdso-layout.lds.S). The kernel fills it in only once
//! kvm-clock has been the clock source; an access before that is SIGBUS.
//!
//! # Safety
//!
//! The page is never dereferenced here. Its address goes to `write`, and the
//! kernel checks it: an unreadable page is `EFAULT`, not a signal.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use facts::{Fact, Unknown};

/// Bytes of the page's structure.
const SIZE: usize = 32;
const PAGE_BYTES: usize = 4096;
const MAPS: &str = "/proc/self/maps";
const WHAT: &str = "the kvm-clock page";

/// The host rewrites the page in well under a microsecond.
const TRIES: usize = 64;

/// The fields of [`facts::hardware::parse_pvclock_page`].
pub(crate) fn fields() -> Fact<String> {
    address().and_then(read).map(|bytes| text(&bytes))
}

/// Where this process has the page, if the kernel has filled it in.
pub(crate) fn address() -> Fact<usize> {
    match std::fs::read(MAPS) {
        // It holds this program's file name, in any bytes.
        Ok(maps) => match find(&String::from_utf8_lossy(&maps)) {
            Some(address) => Fact::Known(address),
            None => Fact::Unknown(Unknown::not_there("a mapping of kernel clock data")),
        },
        Err(error) => Fact::Unknown(crate::privilege::why(MAPS, &error)),
    }
}

/// The bytes of the page at `address`.
pub(crate) fn read(address: usize) -> Fact<[u8; SIZE]> {
    Copier::new().and_then(|copier| copier.read(address))
}

/// A pipe that copies the page: the kernel refuses a bad address, where a load
/// would be a signal.
#[derive(Debug)]
pub(crate) struct Copier {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Copier {
    pub(crate) fn new() -> Fact<Self> {
        match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
            Ok((reader, writer)) => Fact::Known(Self { reader, writer }),
            Err(error) => Fact::Unknown(crate::privilege::why(WHAT, &error.into())),
        }
    }

    /// The bytes of the page at `address`.
    pub(crate) fn read(&self, address: usize) -> Fact<[u8; SIZE]> {
        match self.copy_whole(address) {
            Ok(bytes) => Fact::Known(bytes),
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                let why = "the kernel maps no kvm-clock page: kvm-clock was not its clock source";
                Fact::Unknown(Unknown::not_applicable(why))
            }
            Err(error) => Fact::Unknown(crate::privilege::why(WHAT, &error)),
        }
    }

    /// A copy during which the host did not write.
    fn copy_whole(&self, address: usize) -> std::io::Result<[u8; SIZE]> {
        let mut last = self.copy(address)?;
        for _ in 0..TRIES {
            let next = self.copy(address)?;
            if next == last && next[0] & 1 == 0 {
                return Ok(next);
            }
            last = next;
        }
        Err(std::io::Error::other("the host rewrote it during every copy"))
    }

    fn copy(&self, address: usize) -> std::io::Result<[u8; SIZE]> {
        let start = std::ptr::with_exposed_provenance::<libc::c_void>(address);
        // SAFETY: the kernel reads there on our behalf and checks the address.
        let written = unsafe { libc::write(self.writer.as_raw_fd(), start, SIZE) };
        let written = usize::try_from(written).map_err(|_| std::io::Error::last_os_error())?;
        // Read back what was written, so that the pipe is empty again.
        let mut bytes = [0; SIZE];
        let read = rustix::io::read(&self.reader, &mut bytes[..written])?;
        match (written, read) {
            (SIZE, SIZE) => Ok(bytes),
            _ => Err(std::io::Error::other("only a part of it could be copied")),
        }
    }
}

/// The page's address in a text of `/proc/self/maps`.
pub(crate) fn find(maps: &str) -> Option<usize> {
    let range = |name: &str| {
        let line = maps.lines().find(|line| line.ends_with(name))?;
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    };
    if let Some((start, _)) = range("[vvar_vclock]") {
        return Some(start);
    }
    let (start, end) = range("[vvar]")?;
    (end.checked_sub(start)? >= 2 * PAGE_BYTES).then_some(start + PAGE_BYTES)
}

fn text(bytes: &[u8; SIZE]) -> String {
    let u32_at =
        |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
    format!(
        "version {}\ntsc_timestamp {}\nsystem_time_ns {}\ntsc_to_system_mul {}\n\
         tsc_shift {}\nflags {}\n",
        u32_at(0),
        u64_at(8),
        u64_at(16),
        u32_at(24),
        bytes[28] as i8,
        bytes[29]
    )
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
    fn an_unmapped_address_is_an_error_and_no_signal() {
        let copier = Copier::new();
        let copied = copier.known().expect("a pipe").copy(0);
        assert_eq!(copied.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn memory_of_ours_comes_back_as_it_is() {
        let page: [u8; SIZE] = std::array::from_fn(|i| i as u8);
        let copier = Copier::new();
        let copier = copier.known().expect("a pipe");
        for _ in 0..2 {
            assert_eq!(copier.read(page.as_ptr().expose_provenance()), Fact::Known(page));
            // One that cannot be read leaves nothing for the next.
            assert!(copier.read(0).known().is_none());
        }
    }
}
