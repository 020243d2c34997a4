//! A kernel that boots the next one by kexec: what a guest does to its provider's pages by itself.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::initramfs;

/// Asks the first kernel for the second one.
pub(super) const KEXEC: &str = "--kexec";
/// What the second kernel is told in place of the wish for it.
const AGAIN: &str = "--again";
const INITRD: &str = "/tmp/initrd";
/// Boots the kernel of the initramfs, with this program and the modules in another.
/// Does not return where that can be done.
pub(super) fn boot_again(modules: &[Vec<u8>]) -> io::Result<()> {
    let kernel = File::open(Path::new("/").join(initramfs::KERNEL))?;
    let mut archive = initramfs::archive(&fs::read("/proc/self/exe")?)?;
    initramfs::append(&mut archive, &initramfs::modules(modules)?);
    File::create_new(INITRD)?.write_all(&archive)?;
    // The kernel makes copies of both.
    drop(archive);
    let parameters = CString::new(second(&fs::read_to_string("/proc/cmdline")?))?;
    linux::kexec::boot(&kernel, &File::open(INITRD)?, &parameters)
}

fn second(parameters: &str) -> String {
    let words = parameters.split_whitespace();
    words.map(|word| if word == KEXEC { AGAIN } else { word }).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_kernel_is_told_that_it_is_the_second() {
        let first = "console=ttyS0 -- linux-inside --kexec --stays\n";
        assert_eq!(second(first), "console=ttyS0 -- linux-inside --again --stays");
    }
}
