//! A file of the kernel's that is read repeatedly.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file that stays open and is read from its start each time.
#[derive(Debug)]
pub struct Reread(File);

impl Reread {
    /// Opens `path`.
    ///
    /// # Errors
    /// Those of open.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Fills `bytes` from the start of the file, and returns how many there
    /// were. The kernel generates the text again for each read from 0.
    ///
    /// # Errors
    /// Those of read.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        read_from_start(&self.0, bytes)
    }
}

pub(crate) fn read_from_start(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
