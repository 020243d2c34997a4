//! A notification when this virtual machine is a copy: since Linux 6.10 the
//! kernel sends a uevent (drivers/virt/vmgenid.c).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Uevents of the kernel itself; udev's are group 2.
const KERNEL_GROUP: u32 = 1;

/// The longest message (`UEVENT_BUFFER_SIZE`) and the path before it.
const MESSAGE_BYTES: usize = 8 << 10;

/// Messages read in one call.
const MESSAGES: usize = 64;

const NEW: &[u8] = b"NEW_VMGENID=1";

/// Receives them.
#[derive(Debug)]
pub struct Generations(OwnedFd);

impl Generations {
    /// Reports what happens from now on.
    ///
    /// # Errors
    /// The kernel opens no netlink socket.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let socket = socket_with(family, kind, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        Ok(Self(socket))
    }

    /// Whether this machine became a copy since the last call.
    pub fn is_new(&self) -> bool {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut is_new = false;
        for _ in 0..MESSAGES {
            match recv(&self.0, &mut bytes, RecvFlags::empty()) {
                Ok((length, _)) => is_new |= announces_new_generation(&bytes[..length]),
                // A full queue dropped messages (ENOBUFS): read the rest.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        is_new
    }
}

/// A message is `change@/devices/…` and variables, each ended by a zero byte.
fn announces_new_generation(message: &[u8]) -> bool {
    message.split(|byte| *byte == 0).skip(1).any(|variable| variable == NEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_variable_counts() {
        let of_vmgenid = b"change@/devices/LNXSYSTM:00/QEMUVGID:00\0ACTION=change\0NEW_VMGENID=1\0";
        assert!(announces_new_generation(of_vmgenid));
        assert!(!announces_new_generation(b"NEW_VMGENID=1\0ACTION=add\0"));
        assert!(!announces_new_generation(b"add@/x\0OLD_NEW_VMGENID=1\0NEW_VMGENID=10\0"));
        assert!(!announces_new_generation(b""));
    }

    #[test]
    fn receiving_needs_no_root() {
        match Generations::new() {
            Ok(generations) => assert!(!generations.is_new()),
            Err(error) => {
                use std::io::Write as _;
                let _ = writeln!(std::io::stderr(), "skipped: uevents: {error}");
            }
        }
    }
}
