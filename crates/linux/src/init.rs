//! What the first program of a machine does: the file systems of the kernel, and
//! the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

/// The kernel's log.
const KMSG: &str = "/dev/kmsg";

/// Mounts /proc, /sys and /dev, of which the folders must be there.
///
/// # Errors
/// The kernel's own, of the first that cannot be mounted.
pub fn mount_kernel_file_systems() -> io::Result<()> {
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, folder, kind, MountFlags::empty(), None)?;
    }
    Ok(())
}

/// The largest record of /dev/kmsg (Linux: kernel/printk/internal.h, 2 KiB in newer
/// kernels, 8 KiB with properties).
const RECORD_BYTES: usize = 8192;
/// More than any kernel's buffer holds.
const RECORDS: usize = 100_000;

/// The kernel's log as text, a line each (Linux: Documentation/ABI/testing/dev-kmsg).
///
/// # Errors
/// The kernel's own.
pub fn kernel_log() -> io::Result<String> {
    let mut device = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(KMSG)?;
    let (mut text, mut record) = (String::new(), vec![0; RECORD_BYTES]);
    for _ in 0..RECORDS {
        let length = match device.read(&mut record) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Records were overwritten meanwhile: the next read goes on.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
            Err(error) => return Err(error),
        };
        let record = String::from_utf8_lossy(&record[..length]);
        let message = record.split_once(';').map_or("", |(_, message)| message);
        text.push_str(message.lines().next().unwrap_or_default());
        text.push('\n');
    }
    Ok(text)
}

/// Loads a module of the kernel, also a compressed one, where the kernel takes these
/// (CONFIG_MODULE_DECOMPRESS).
///
/// # Errors
/// The file cannot be read, or the kernel's own: ENOEXEC where it was built for another.
pub fn load_module(path: &Path) -> io::Result<()> {
    /// include/uapi/linux/module.h
    const MODULE_INIT_COMPRESSED_FILE: libc::c_int = 4;
    let mut magic = [0; 4];
    let mut file = File::open(path)?;
    file.read_exact(&mut magic)?;
    let flags = if magic == *b"\x7fELF" { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    Ok(finit_module(&file, c"", flags)?)
}

/// Restarts the machine at once, without a word to any program.
///
/// # Errors
/// The kernel's own; without one this does not return.
pub fn restart() -> io::Result<()> {
    Ok(reboot(RebootCommand::Restart)?)
}
