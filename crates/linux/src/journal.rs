//! The systemd journal, by its native protocol: a datagram of fields to a
//! Unix socket (systemd.io/JOURNAL_NATIVE_PROTOCOL). Our entries fit into a
//! datagram, so no memory file is passed. Why no library does this:
//! docs/decisions/structure.md.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The socket of systemd-journald.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// A connection to the journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Checks that a journal listens at `path`.
    ///
    /// # Errors
    /// None does, or this user may not write to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(path)?;
        // Not connected for good: a journal that restarts has a new socket at
        // the same path. Sending does not wait for a full one.
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Sends one entry.
    ///
    /// # Errors
    /// The journal does not accept it now.
    pub fn send(&self, fields: &[(impl AsRef<str>, String)]) -> io::Result<()> {
        self.socket.send_to(&encode(fields), &self.path).map(drop)
    }
}

/// `NAME=value` lines; a value of several lines is preceded by its length.
fn encode(fields: &[(impl AsRef<str>, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_ref().as_bytes());
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_encoded_as_the_protocol_specifies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Journal::open(&path).is_err());
        let listener = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::open(&path).unwrap();
        journal.send(&[("PRIORITY", "5".into()), ("MESSAGE", "a\nb".into())]).unwrap();
        let mut bytes = [0; 64];
        let length = listener.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"PRIORITY=5\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n");
    }

    #[test]
    fn a_restarted_journal_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::open(&path).unwrap();
        drop(first);
        assert!(journal.send(&[("MESSAGE", "lost".into())]).is_err());
        std::fs::remove_file(&path).unwrap();
        let second = UnixDatagram::bind(&path).unwrap();
        journal.send(&[("MESSAGE", "kept".into())]).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(second.recv(&mut bytes).unwrap(), b"MESSAGE=kept\n".len());
    }
}
