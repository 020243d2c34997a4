//! The kernel tells when this virtual machine is a copy: since Linux 6.10 as
//! a message to programs that listen for devices (drivers/virt/vmgenid.c).

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use facts::Fact;

/// The kernel's own messages; those of udev are group 2.
const OF_THE_KERNEL: u32 = 1;

/// As long as any message (`UEVENT_BUFFER_SIZE`), and the path before it.
const MESSAGE_BYTES: usize = 8 << 10;

/// Messages taken at once.
const MESSAGES: usize = 64;

const NEW: &[u8] = b"NEW_VMGENID=1";

/// Listens for them.
#[derive(Debug)]
pub struct Generations {
    socket: OwnedFd,
}

impl Generations {
    /// Tells of what happens from now on.
    pub fn new() -> Fact<Self> {
        let socket = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                flags,
                Some(KOBJECT_UEVENT),
            )?;
            bind(&socket, &SocketAddrNetlink::new(0, OF_THE_KERNEL))?;
            Ok::<_, Errno>(Self { socket })
        };
        match socket() {
            Ok(socket) => Fact::Known(socket),
            Err(error) => {
                Fact::Unknown(crate::privilege::why("the kernel's uevents", &error.into()))
            }
        }
    }

    /// Whether this machine became another's copy since the last time.
    pub fn is_new(&self) -> bool {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut is_new = false;
        for _ in 0..MESSAGES {
            // What was lost to a full queue is lost (ENOBUFS): read on.
            match recv(&self.socket, &mut bytes, RecvFlags::empty()) {
                Ok((length, _)) => is_new |= tells_of_a_new_one(&bytes[..length]),
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        is_new
    }
}

/// A message is `change@/devices/…` and variables, each ended by a zero byte.
fn tells_of_a_new_one(message: &[u8]) -> bool {
    message.split(|byte| *byte == 0).skip(1).any(|variable| variable == NEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_and_not_its_look_alikes() {
        let of_vmgenid = b"change@/devices/LNXSYSTM:00/QEMUVGID:00\0ACTION=change\0NEW_VMGENID=1\0";
        assert!(tells_of_a_new_one(of_vmgenid));
        assert!(!tells_of_a_new_one(b"NEW_VMGENID=1\0ACTION=add\0"));
        assert!(!tells_of_a_new_one(b"add@/x\0OLD_NEW_VMGENID=1\0NEW_VMGENID=10\0"));
        assert!(!tells_of_a_new_one(b""));
    }

    #[test]
    fn listening_needs_no_root() {
        match Generations::new() {
            Fact::Known(generations) => assert!(!generations.is_new()),
            Fact::Unknown(why) => crate::skipped(&why.to_string()),
        }
    }
}
