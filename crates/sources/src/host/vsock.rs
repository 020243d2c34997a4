//! AF_VSOCK, on which the host connects to its guest.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, bind, getpeername, listen, socket,
};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::stream::{HostStream, Left};
use super::told::{Rejected, ReportedTime};

/// The host (VMADDR_CID_HOST, include/uapi/linux/vm_sockets.h): neither this
/// machine itself, where any user may connect, nor another guest.
const HOST_CID: u32 = 2;

/// Connections taken in one call, so that a flood does not stall the caller.
const MOST_AT_ONCE: u32 = 8;

/// A listening socket, and the host's connection.
#[derive(Debug)]
pub(super) struct Vsock {
    listener: OwnedFd,
    connection: Option<HostStream>,
}

impl Vsock {
    pub(super) fn listen(port: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Vsock, SockType::Stream, flags, None)?;
        bind(listener.as_raw_fd(), &VsockAddr::new(libc::VMADDR_CID_ANY, port))?;
        listen(&listener, Backlog::new(MOST_AT_ONCE as i32)?)?;
        Ok(Self { listener, connection: None })
    }

    /// Takes the host's newest connection, and reads what waits on it. It has
    /// to be known to the caller's epoll: `added` is called with it.
    pub(super) fn receive(
        &mut self,
        told: &mut ReportedTime,
        mut added: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let connection = match accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                // One that went before it was taken, or no more descriptors.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::CONNRESET) => continue,
                Err(_) => break,
            };
            let cid = getpeername::<VsockAddr>(connection.as_raw_fd()).map(|peer| peer.cid());
            self.connected(connection, cid.unwrap_or(libc::VMADDR_CID_ANY), told, &mut added)?;
        }
        let left = self.connection.as_mut().map(|connection| connection.receive(told));
        if matches!(left.transpose()?, Some(Left::Ended | Left::Broken)) {
            self.connection = None;
        }
        Ok(())
    }

    /// The newest counts: one that hangs does not keep the next one out.
    fn connected(
        &mut self,
        connection: OwnedFd,
        cid: u32,
        told: &mut ReportedTime,
        added: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if cid != HOST_CID {
            told.reject(Rejected::Peer { cid });
            return Ok(());
        }
        added(connection.as_fd())?;
        self.connection = Some(HostStream::new(connection));
        Ok(())
    }
}

impl AsFd for Vsock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests;
