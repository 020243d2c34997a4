//! A name that one process of a machine holds at a time.
//!
//! It is bound as an abstract Unix socket (`man 7 unix`): no file is left
//! behind, no folder has to be writable, and the kernel releases it when the
//! process ends, even by SIGKILL. A name belongs to one network namespace, so
//! two containers do not see each other's; and any user can take it first.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A name, held until this is dropped.
#[derive(Debug)]
pub struct NameLock {
    _socket: UnixDatagram,
}

impl NameLock {
    /// Takes `name`; `None` while another process, or another part of this
    /// one, holds it.
    ///
    /// # Errors
    /// This process gets no socket, or `name` is too long for one.
    pub fn take(name: &str) -> io::Result<Option<Self>> {
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => Ok(Some(Self { _socket: socket })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_until_it_is_released() {
        let name = format!("parachron-test-{}", std::process::id());
        let first = NameLock::take(&name).unwrap().unwrap();
        assert!(NameLock::take(&name).unwrap().is_none());
        drop(first);
        assert!(NameLock::take(&name).unwrap().is_some());
        assert!(NameLock::take(&"x".repeat(200)).is_err());
    }
}
