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
    /// were. The kernel generates the text again for each read from 0, and
    /// copies as much of it as fits: for files that it shows by one call, as
    /// those of sysfs, `stat` and `schedstat` (`single_open`, fs/seq_file.c). So
    /// no second read has to find the end.
    ///
    /// # Errors
    /// Those of read.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read_at(bytes, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_has_all_of_a_file_that_the_kernel_shows_by_one_call() {
        let mut bytes = vec![0; 256 << 10];
        let length = Reread::open(Path::new("/proc/stat")).unwrap().read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]);
        assert!(text.starts_with("cpu ") && text.contains("\nsoftirq "), "{text}");
        assert!(text.ends_with('\n'), "{text}");
    }
}
