//! A guest in QEMU's software emulation.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The emulator.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// Software emulation of a processor with AMD's virtualization and an
/// invariant TSC; a machine with HPET, ACPI PM timer and CMOS RTC; no network
/// or disk, unless a guest adds them.
pub(crate) const MACHINE: &str = "-accel tcg -cpu EPYC,+svm,+npt,+invtsc -smp 2 -m 1G \
    -machine q35,hpet=on -nodefaults -nographic -no-reboot -nic none";

/// Exit code of coreutils' `timeout` that ended its command.
const TIMED_OUT: i32 = 124;
/// 128 + SIGKILL: it did not end on SIGTERM.
const KILLED: i32 = 137;

/// What to boot, and where its serial ports go.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The kernel.
    pub(crate) kernel: PathBuf,
    /// Initramfs and command line, for a Linux kernel.
    pub(crate) linux: Option<(PathBuf, String)>,
    /// One file per serial port, in order.
    pub(crate) serial_ports: Vec<PathBuf>,
    /// Further options for QEMU.
    pub(crate) more: Vec<String>,
    /// Wall-clock seconds until it is ended.
    pub(crate) limit_s: u32,
}

impl Guest {
    /// Starts it. QEMU's own errors go to the file `errors`.
    ///
    /// QEMU runs under `timeout`, so that the guest ends in time even if this
    /// program is killed; in the foreground, so that Ctrl-C reaches both.
    pub(crate) fn start(&self, errors: &Path) -> io::Result<Running> {
        let errors = std::fs::File::create(errors)?;
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "--kill-after=5", &self.limit_s.to_string(), PROGRAM])
            .args(self.options())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        Ok(Running { child: command.spawn()?, limit_s: self.limit_s })
    }

    /// QEMU's options.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options: Vec<String> = MACHINE.split_whitespace().map(str::to_owned).collect();
        options.extend(["-kernel".to_owned(), self.kernel.display().to_string()]);
        if let Some((initramfs, parameters)) = &self.linux {
            options.extend(["-initrd".to_owned(), initramfs.display().to_string()]);
            options.extend(["-append".to_owned(), parameters.clone()]);
        }
        for port in &self.serial_ports {
            options.extend(["-serial".to_owned(), format!("file:{}", port.display())]);
        }
        options.extend(self.more.iter().cloned());
        options
    }
}

/// A running guest; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    limit_s: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // `timeout` forwards it to QEMU. An error means that it has ended.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

impl Running {
    /// Once it has ended: whether it powered off, or what happened instead.
    pub(crate) fn end(&mut self) -> io::Result<Option<Result<(), String>>> {
        Ok(self.child.try_wait()?.map(|status| match status.code() {
            Some(0) => Ok(()),
            Some(TIMED_OUT | KILLED) => {
                Err(format!("the guest did not power off within {} s", self.limit_s))
            }
            _ => Err(format!("{PROGRAM}: {status}")),
        }))
    }
}
