//! Bounded reads below a root folder.
//!
//! A captured root is not trusted: a link may point out of it, a name may be a
//! FIFO, a device or a terabyte. So below a captured root
//! the kernel resolves each path with that folder as `/`
//! (`openat2(2)`, `RESOLVE_IN_ROOT`), only regular files are opened, and no
//! more than the stated bytes are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use facts::{Fact, Unknown};

/// More entries of one folder than any fact needs.
const MAX_NAMES: usize = 4096;

/// More processes than any machine runs.
const MAX_PROCESSES: usize = 1 << 16;

/// The files below a root: this machine's, or a captured folder's.
#[derive(Debug)]
pub struct Files {
    /// The captured folder; `None` for the live machine.
    folder: Option<OwnedFd>,
}

impl Files {
    /// This machine's own files.
    pub(crate) fn live() -> Self {
        Self { folder: None }
    }

    /// The files below an open folder.
    pub(super) fn below(folder: OwnedFd) -> Self {
        Self { folder: Some(folder) }
    }

    /// Whether these are the running machine's.
    pub fn is_live(&self) -> bool {
        self.folder.is_none()
    }

    /// A file's bytes; one of more than `limit` is malformed.
    pub fn bytes(&self, path: &str, limit_bytes: u64) -> Fact<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self
            .open(path)
            .and_then(|file| file.take(limit_bytes + 1).read_to_end(&mut bytes).map_err(errno));
        match read {
            Err(error) => Fact::Unknown(self.unknown(path, error)),
            Ok(read) if read as u64 > limit_bytes => Fact::Unknown(Unknown::Malformed {
                what: path.to_owned(),
                expected: format!("at most {limit_bytes} bytes"),
                found: "more".to_owned(),
            }),
            Ok(_) => Fact::Known(bytes),
        }
    }

    /// The last `limit` bytes of a file, whole lines only: for logs, whose
    /// end is what matters.
    pub fn tail(&self, path: &str, limit_bytes: u64) -> Fact<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open(path).and_then(|mut file| {
            let length = file.metadata().map_err(errno)?.len();
            let start = length.saturating_sub(limit_bytes);
            file.seek(SeekFrom::Start(start)).map_err(errno)?;
            file.take(limit_bytes).read_to_end(&mut bytes).map_err(errno)?;
            Ok(start > 0)
        });
        match read {
            Err(error) => Fact::Unknown(self.unknown(path, error)),
            Ok(cut) => {
                if let (true, Some(end)) = (cut, bytes.iter().position(|&byte| byte == b'\n')) {
                    bytes.drain(..=end);
                }
                Fact::Known(bytes)
            }
        }
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        let listed = self.open_any(path, OFlags::RDONLY | OFlags::DIRECTORY).and_then(|folder| {
            let mut names = Vec::new();
            for entry in Dir::read_from(&folder)?.take(MAX_NAMES) {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        });
        match listed {
            Ok(names) => Fact::Known(names),
            Err(error) => Fact::Unknown(self.unknown(path, error)),
        }
    }

    /// The processes by their names, as far as the kernel keeps these (15
    /// characters); not there when `/proc` shows none.
    pub fn processes(&self) -> Fact<BTreeMap<String, Vec<u32>>> {
        let mut names: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut cut: Option<String> = None;
        let walked =
            self.open_any("/proc", OFlags::RDONLY | OFlags::DIRECTORY).and_then(|folder| {
                for entry in Dir::read_from(&folder)?.take(MAX_PROCESSES) {
                    let entry = entry?;
                    let pid = entry.file_name().to_string_lossy().parse();
                    if let Ok(pid) = pid
                        && let Fact::Known(name) = self.bytes(&format!("/proc/{pid}/comm"), 64)
                    {
                        let text = String::from_utf8_lossy(&name);
                        if !text.ends_with('\n') {
                            cut = Some(text.to_string());
                        }
                        names.entry(text.trim().to_owned()).or_default().push(pid);
                    }
                }
                Ok(())
            });
        match walked {
            Err(error) => Fact::Unknown(self.unknown("/proc", error)),
            Ok(()) if names.is_empty() => Fact::Unknown(Unknown::not_there("/proc/*/comm")),
            Ok(()) => match cut {
                Some(text) => Fact::Unknown(Unknown::malformed("/proc/*/comm", "a line", &text)),
                None => Fact::Known(names),
            },
        }
    }

    /// Where a symbolic link leads, which is not followed.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let link = self.open_any(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        rustix::fs::readlinkat(link, "", Vec::new()).ok()?.into_string().ok()
    }

    /// Whether anything of that name is there.
    pub fn exists(&self, path: &str) -> bool {
        match self.folder {
            None => rustix::fs::accessat(CWD, path, Access::EXISTS, AtFlags::empty()).is_ok(),
            Some(_) => self.open_any(path, OFlags::PATH).is_ok(),
        }
    }

    /// A regular file, open for reading.
    fn open(&self, path: &str) -> Result<File, Errno> {
        if !self.is_live() {
            // Opening a device can act on it (a watchdog starts, a tape
            // rewinds): check a foreign file's type before opening it.
            must_be_regular(&self.open_any(path, OFlags::PATH)?)?;
        }
        let file = self.open_any(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        must_be_regular(&file)?;
        Ok(File::from(file))
    }

    fn open_any(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(root) = &self.folder else {
            return rustix::fs::open(path, flags, Mode::empty());
        };
        let inside = path.trim_start_matches('/');
        match rustix::fs::openat2(root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Kernels before 5.6, and container filters that do not know it.
            Err(Errno::NOSYS | Errno::PERM) => open_without_links(root, inside, flags),
            other => other,
        }
    }

    /// The reason that stands for an error.
    fn unknown(&self, path: &str, error: Errno) -> Unknown {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO => {
                Unknown::NotThere { what: path.to_owned() }
            }
            Errno::ACCESS | Errno::PERM
                if self.is_live() && !rustix::process::geteuid().is_root() =>
            {
                Unknown::NeedsRoot { what: path.to_owned() }
            }
            other => Unknown::Unreadable {
                what: path.to_owned(),
                error: match other {
                    NOT_REGULAR => "not a regular file".to_owned(),
                    Errno::LOOP => "a symbolic link that is not followed".to_owned(),
                    other => std::io::Error::from(other).to_string(),
                },
            },
        }
    }
}

/// The error by which [`Files::open`] reports "not a regular file":
/// one that no file system gives on opening.
const NOT_REGULAR: Errno = Errno::MEDIUMTYPE;

fn must_be_regular(file: &OwnedFd) -> Result<(), Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(NOT_REGULAR),
    }
}

/// Walks a path folder by folder and follows no link at all: safe on any
/// kernel, and enough for trees that `parachron capture` wrote.
fn open_without_links(root: &OwnedFd, inside: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = Path::new(inside).components().peekable();
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::LOOP) };
        let wanted = match parts.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags,
        };
        let opened = rustix::fs::openat(&folder, name, wanted | OFlags::NOFOLLOW, Mode::empty())?;
        // With O_PATH, O_NOFOLLOW opens the link itself (open(2)).
        if FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
        folder = opened;
    }
    Ok(folder)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn without_openat2_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir(path.join("proc")).unwrap();
        std::fs::write(path.join("proc/cmdline"), "quiet").unwrap();
        symlink("cmdline", path.join("proc/inside")).unwrap();
        symlink("/proc", path.join("outside")).unwrap();
        let root = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let root = root.unwrap();
        let open = |inside| open_without_links(&root, inside, OFlags::RDONLY | OFlags::CLOEXEC);
        let mut text = String::new();
        File::from(open("proc/cmdline").unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "quiet");
        for (inside, error) in [
            ("proc/inside", Errno::LOOP),
            ("outside/cmdline", Errno::NOTDIR),
            ("proc/../proc/cmdline", Errno::LOOP),
            ("proc/gone", Errno::NOENT),
            ("gone/cmdline", Errno::NOENT),
        ] {
            assert_eq!(open(inside).unwrap_err(), error, "{inside}");
        }
        // Even a link that is not followed is refused.
        let opened = open_without_links(&root, "proc/inside", OFlags::PATH | OFlags::CLOEXEC);
        assert_eq!(opened.unwrap_err(), Errno::LOOP);
    }
}
