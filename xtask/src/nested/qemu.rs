//! A guest in QEMU's software emulation.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The emulator.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// Software emulation of a processor with AMD's virtualization and a TSC that
/// never stops; a machine with HPET, ACPI PM timer and CMOS RTC; no network,
/// no disk, unless a guest brings them.
pub(crate) const MACHINE: &str = "-accel tcg -cpu EPYC,+svm,+npt,+invtsc -smp 2 -m 1G \
    -machine q35,hpet=on -nodefaults -nographic -no-reboot -nic none";

/// coreutils' code for "I ended it, its time was over".
const TIMED_OUT: i32 = 124;
/// 128 + SIGKILL: it did not end when asked.
const KILLED: i32 = 137;

/// What to boot, and where its serial ports go.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The kernel.
    pub(crate) kernel: PathBuf,
    /// Its first files and its command line, if it is a kernel that wants them.
    pub(crate) linux: Option<(PathBuf, String)>,
    /// One file a serial port, the first one's first.
    pub(crate) serial_ports: Vec<PathBuf>,
    /// More options of QEMU's, if it has more than the machine.
    pub(crate) more: Vec<String>,
    /// Wall-clock seconds until it is ended.
    pub(crate) limit_s: u32,
}

/// How a guest's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It switched itself off.
    PoweredOff,
    /// Its time was over.
    TimedOut,
    /// QEMU ended with an error of its own.
    Failed(ExitStatus),
}

impl Guest {
    /// Starts it. What QEMU itself has to say goes to `complaints`.
    ///
    /// `timeout` stands around QEMU, so that the guest ends in time even when
    /// this program is killed; in the foreground, so that Ctrl-C reaches both.
    pub(crate) fn start(&self, complaints: &Path) -> io::Result<Running> {
        let complaints = std::fs::File::create(complaints)?;
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "--kill-after=5", &self.limit_s.to_string(), PROGRAM])
            .args(self.options())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaints);
        Ok(Running { child: command.spawn()? })
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

/// A guest that was started; ended when dropped, if it has not ended before.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // `timeout` hands it on to QEMU, which ends by it. That it ended
            // meanwhile is as good.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

impl Running {
    /// How it ended, once it has.
    pub(crate) fn end(&mut self) -> io::Result<Option<End>> {
        Ok(self.child.try_wait()?.map(|status| match status.code() {
            Some(0) => End::PoweredOff,
            Some(TIMED_OUT | KILLED) => End::TimedOut,
            _ => End::Failed(status),
        }))
    }
}
