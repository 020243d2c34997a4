//! Which stock kernel is booted, with what.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::initramfs;

/// What to boot, on what.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StockSettings {
    /// bzImage or vmlinux.
    pub kernel: Arc<[u8]>,
    /// Its initramfs, of which `/init` is this program.
    pub initrd: Arc<[u8]>,
    /// More parameters of the kernel.
    pub append: String,
    /// Whether KVM's own kvm-clock is among the providers.
    pub by_kernel: bool,
    /// A VMClock in ACPI: the kernel's driver is built in, or among the modules.
    pub vmclock: bool,
    /// How long a boot and what runs inside may take.
    pub limit: Duration,
    /// Whether each guest is also saved, and restored in other processes after so long.
    pub away: Option<Duration>,
    /// Whether what is judged is booted by kexec, from a first boot.
    pub kexec: bool,
    /// How long `watch` has to be silent in each guest, and the kernel's watchdog with it.
    pub watched: Duration,
}

impl StockSettings {
    /// A kernel's file, with an initramfs of its own or of `program`, which must be
    /// static, and modules of the kernel, to be loaded in this order; with `kexec` it boots
    /// the kernel a second time.
    ///
    /// # Errors
    /// A file cannot be read, or the program is not static.
    pub fn read(
        kernel: &Path,
        initrd: Option<&Path>,
        program: &Path,
        modules: &[PathBuf],
        kexec: bool,
    ) -> io::Result<Self> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        let kernel = read(kernel)?;
        let mut initrd = match initrd {
            Some(initrd) => read(initrd)?,
            None => {
                let program = read(program)?;
                if initramfs::is_dynamic(&program) {
                    return Err(io::Error::other("this program is not static"));
                }
                initramfs::archive(&program)?
            }
        };
        if !modules.is_empty() {
            let modules: io::Result<Vec<_>> = modules.iter().map(|path| read(path)).collect();
            initramfs::append(&mut initrd, &initramfs::modules(&modules?)?);
        }
        if kexec {
            initramfs::append(&mut initrd, &initramfs::kernel(&kernel)?);
        }
        Ok(Self {
            kernel: kernel.into(),
            initrd: initrd.into(),
            append: String::new(),
            by_kernel: true,
            vmclock: false,
            limit: Duration::from_secs(120),
            away: None,
            kexec,
            watched: Duration::from_secs(3),
        })
    }
}
