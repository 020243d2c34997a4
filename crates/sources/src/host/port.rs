//! A virtio-serial port, whose other end only the host has.
//!
//! While the host has not opened its end, reads end at once and polls report a
//! hang-up (`port_fops_read`, `port_fops_poll`, drivers/char/virtio_console.c).

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::stream::{HostStream, Left};
use super::told::ReportedTime;

/// An open port.
#[derive(Debug)]
pub(super) struct Port(HostStream);

impl Port {
    /// Opens the port's device, which one process may have open at a time.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self(HostStream::new(file.into())))
    }

    /// Reads what waits. After bytes that are no frame, those that wait with
    /// them are dropped: a host that begins anew begins with a frame.
    pub(super) fn receive(&mut self, told: &mut ReportedTime) -> io::Result<()> {
        match self.0.receive(told)? {
            Left::Open => {}
            Left::Ended => self.0.reset(),
            Left::Broken => {
                self.0.reset();
                let mut dropped = [0; 4096];
                let _ = rustix::io::read(&self.0, &mut dropped);
            }
        }
        Ok(())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
