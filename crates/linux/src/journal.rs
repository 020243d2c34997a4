//! The systemd journal, by its native protocol: a datagram of fields to a
//! Unix socket (systemd.io/JOURNAL_NATIVE_PROTOCOL). An entry of ours is far
//! smaller than a datagram may be, so no memory file is passed.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where systemd listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// A way into the journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Finds out whether anyone listens.
    ///
    /// # Errors
    /// Nobody does, or this user may not write there.
    pub fn open(path: &Path) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(path)?;
        // Not connected for good: a journal that starts again has a new
        // socket at the same place. A full one is not waited for.
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// One entry.
    ///
    /// # Errors
    /// The journal takes nothing now.
    pub fn send(&self, fields: &[(&str, String)]) -> io::Result<()> {
        self.socket.send_to(&encode(fields), &self.path).map(drop)
    }
}

/// `NAME=value` lines; a value of several lines has its length before it.
fn encode(fields: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
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
    fn an_entry_arrives_as_the_protocol_has_it() {
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
    fn a_journal_that_starts_again_is_found_again() {
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
