//! What the first program of a machine needs of the kernel: its file systems, and its log.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::mount::{MountFlags, mount};

/// The kernel's log.
const KMSG: &str = "/dev/kmsg";

/// Mounts /proc, /sys and /dev, of which the folders must be there.
pub(crate) fn mount_kernel_file_systems() -> io::Result<()> {
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
pub(crate) fn kernel_log() -> io::Result<String> {
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
