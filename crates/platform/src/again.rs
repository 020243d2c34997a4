//! A file of the kernel's that is read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use facts::Fact;

/// Kept open, and read from its start each time.
#[derive(Debug)]
pub(crate) struct Again {
    path: PathBuf,
    file: File,
}

impl Again {
    pub(crate) fn open(path: &Path) -> Fact<Self> {
        match File::open(path) {
            Ok(file) => Fact::Known(Self { path: path.to_owned(), file }),
            Err(error) => Fact::Unknown(crate::privilege::why(&path.display().to_string(), &error)),
        }
    }

    /// From the start, as much as there is and `bytes` holds: how much that
    /// was. The kernel makes what it shows anew for each read from 0.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Fact<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let what = self.path.display().to_string();
                    return Fact::Unknown(crate::privilege::why(&what, &error));
                }
            }
        }
        Fact::Known(filled)
    }
}
