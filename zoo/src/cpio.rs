//! An archive in cpio's `newc` format, which the kernel unpacks as its
//! initramfs (Linux: Documentation/driver-api/early-userspace/buffer-format.rst).

/// Kinds and permissions of entries, as `stat` has them.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// The name that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// An archive under construction. Everything belongs to root, dated 1970.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder; its parents must have been added.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, (0, 0), &[]);
    }

    /// Adds an executable file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, (0, 0), content);
    }

    /// Adds a character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, DEVICE, (major, minor), &[]);
    }

    /// The archive's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        // No file here comes near 4 GiB.
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // Inode, mode, owner, group, links, time, size, the disk's numbers,
        // the device's, the name's length and a checksum that newc leaves 0.
        let inode = self.entries;
        let (major, minor) = device;
        let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents end on a multiple of 4.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_formats_layout() {
        let mut archive = Archive::default();
        archive.file("init", b"12345");
        let bytes = archive.finish();
        let expected = "070701\
             00000001 000081ed 00000000 00000000 00000001 00000000 00000005 \
             00000000 00000000 00000000 00000000 00000005 00000000\
             init\0\0\
             12345\0\0\0"
            .replace(' ', "");
        assert_eq!(&bytes[..expected.len()], expected.as_bytes());
        let rest = &bytes[expected.len()..];
        assert_eq!(&rest[..6], b"070701");
        assert_eq!(&rest[110..], b"TRAILER!!!\0\0\0\0");
    }

    #[test]
    fn each_entry_starts_on_a_multiple_of_four() {
        for length in 0..9 {
            let mut archive = Archive::default();
            archive.folder("bin");
            archive.file("bin/x", &vec![b'x'; length]);
            archive.device("console", 5, 1);
            let bytes = archive.finish();
            let starts: Vec<usize> = bytes
                .windows(6)
                .enumerate()
                .filter(|(_, w)| *w == b"070701")
                .map(|(at, _)| at)
                .collect();
            assert_eq!(starts.len(), 4, "{length}");
            assert!(starts.iter().all(|at| at % 4 == 0), "{length}: {starts:?}");
            assert_eq!(bytes.len() % 4, 0);
        }
    }
}
