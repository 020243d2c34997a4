//! Where the metrics are served: at an address of this machine, or on a Unix socket.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

/// The text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS:PORT, such as 127.0.0.1:9975 or [::1]:9975, or /PATH, found {0:?}")]
pub struct BadListenAddress(String);

impl FromStr for ListenAddress {
    type Err = BadListenAddress;

    fn from_str(text: &str) -> Result<Self, BadListenAddress> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(Self::Unix(text.into()));
        }
        let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        address.map(Self::Tcp).ok_or_else(|| BadListenAddress(text.to_owned()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(to),
            Self::Unix(path) => path.display().fmt(to),
        }
    }
}

impl ListenAddress {
    /// Whether programs of this machine alone can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// What follows from an address that other machines reach.
    pub fn exposure(&self) -> String {
        format!(
            "any machine that reaches {self} can read the metrics and the daemon's last log lines: \
             no TLS, no password"
        )
    }

    /// Listens. A socket file that no process serves any more is replaced; as on loopback,
    /// every user of the machine may connect.
    ///
    /// # Errors
    /// Another process listens there, or the system refuses.
    pub fn bind(&self) -> io::Result<ScrapeListener> {
        match self {
            Self::Tcp(address) => TcpListener::bind(address).map(ScrapeListener::Tcp),
            Self::Unix(path) => {
                remove_unserved(path)?;
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, Permissions::from_mode(0o666))?;
                Ok(ScrapeListener::Unix(listener))
            }
        }
    }
}

/// A listener of either kind.
#[derive(Debug)]
pub enum ScrapeListener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix stream socket.
    Unix(UnixListener),
}

fn remove_unserved(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_unix_addresses_alone_are_local() {
        let is_local = |text: &str| text.parse().map(|address: ListenAddress| address.is_local());
        for local in ["127.0.0.1:1", "127.9.9.9:9975", "[::1]:1", "[::ffff:127.0.0.1]:1", "/run/m"]
        {
            assert_eq!(is_local(local), Ok(true), "{local}");
        }
        for open in ["0.0.0.0:9975", "[::]:9975", "10.0.0.7:9975", "[fe80::1]:1"] {
            assert_eq!(is_local(open), Ok(false), "{open}");
        }
        for wrong in ["", "9975", "localhost:9975", "127.0.0.1", "127.0.0.1:0", "run/m"] {
            assert!(is_local(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_socket_that_no_process_serves_is_replaced_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let address = ListenAddress::Unix(folder.path().join("metrics.sock"));
        drop(address.bind().unwrap());
        let listener = address.bind().unwrap();
        assert_eq!(address.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(ListenAddress::Unix(file.clone()).bind().is_err());
        assert_eq!(fs::read_to_string(file).unwrap(), "kept");
    }
}
