//! Where the host is listened to.

use std::fmt;
use std::path::PathBuf;

/// Where the host is listened to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostChannel {
    /// On no channel.
    #[default]
    None,
    /// A Unix datagram socket to be made at this path.
    Socket(PathBuf),
    /// This port of AF_VSOCK.
    Vsock(u32),
    /// A virtio-serial port, as `/dev/virtio-ports/NAME`.
    Port(PathBuf),
}

impl fmt::Display for HostChannel {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Socket(path) | Self::Port(path) => path.display().fmt(to),
            Self::Vsock(port) => write!(to, "vsock:{port}"),
        }
    }
}
