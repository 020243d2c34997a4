//! Switching the kernel's clock source.
//!
//! The kernel accepts the name of an unknown source, or of one it has just
//! found unstable: the write succeeds and nothing changes. So each switch is
//! read back.

use std::io::Write;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use facts::clocksource::{parse_available, parse_current};
use facts::{Fact, Unknown};

const LIVE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Why the source could not be read or switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The kernel does not report it.
    #[error("{0}")]
    Unknown(Unknown),
    /// This user may not switch.
    #[error("switching the clocksource needs root: {} is not writable", path.display())]
    NotRoot {
        /// The file.
        path: PathBuf,
    },
    /// Nobody may switch here: a container, mostly.
    #[error("{} is on a file system mounted read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The write failed otherwise.
    #[error("cannot write {:?} to {}: {error}", name, path.display())]
    Write {
        /// What was written.
        name: String,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// Another program is switching sources.
    #[error("another program holds a lock on {}: it is switching the clocksource", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The kernel accepted the write, and uses another source.
    #[error("requested clocksource {requested}, but the kernel uses {found}")]
    NotTaken {
        /// The source written.
        requested: String,
        /// The source in use.
        found: String,
    },
}

/// The kernel's folder of clock sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switchboard {
    folder: PathBuf,
}

impl Switchboard {
    /// This machine's.
    pub fn live() -> Self {
        Self::in_folder(LIVE)
    }

    /// One in another folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The sources one may switch to, in the kernel's order.
    ///
    /// # Errors
    /// [`SwitchError::Unknown`].
    pub fn available(&self) -> Result<Vec<String>, SwitchError> {
        into_result(parse_available(&self.read("available_clocksource")?))
    }

    /// The source in use.
    ///
    /// # Errors
    /// [`SwitchError::Unknown`].
    pub fn current(&self) -> Result<String, SwitchError> {
        into_result(parse_current(&self.read("current_clocksource")?))
    }

    /// Whether this process may switch: opening the file decides, not the
    /// user's number.
    ///
    /// # Errors
    /// [`SwitchError::NotRoot`], [`SwitchError::ReadOnly`] and others.
    pub fn may_switch(&self) -> Result<(), SwitchError> {
        self.open("", false).map(drop)
    }

    /// Locks out other programs that take this lock before they switch, while
    /// the returned file is open.
    ///
    /// # Errors
    /// [`SwitchError::Busy`], and those of opening the file.
    pub fn lock(&self) -> Result<std::fs::File, SwitchError> {
        let file = self.open("", false)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => Err(SwitchError::Busy { path: self.path() }),
            Err(error) => Err(self.write_error("", error.into())),
        }
    }

    /// Makes `name` the source in use, and reads back that it is.
    ///
    /// # Errors
    /// Any [`SwitchError`].
    pub fn switch_to(&self, name: &str) -> Result<(), SwitchError> {
        let mut file = self.open(name, true)?;
        file.write_all(name.as_bytes()).map_err(|error| self.write_error(name, error))?;
        let found = self.current()?;
        if found == name {
            return Ok(());
        }
        Err(SwitchError::NotTaken { requested: name.to_owned(), found })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("current_clocksource")
    }

    fn open(&self, name: &str, truncate: bool) -> Result<std::fs::File, SwitchError> {
        let file = std::fs::OpenOptions::new().write(true).truncate(truncate).open(self.path());
        file.map_err(|error| self.write_error(name, error))
    }

    fn write_error(&self, name: &str, error: std::io::Error) -> SwitchError {
        let path = self.path();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => SwitchError::NotRoot { path },
            std::io::ErrorKind::ReadOnlyFilesystem => SwitchError::ReadOnly { path },
            _ => SwitchError::Write { name: name.to_owned(), path, error },
        }
    }

    fn read(&self, name: &str) -> Result<String, SwitchError> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            SwitchError::Unknown(crate::unknown_of(&path.display().to_string(), &error))
        })
    }
}

fn into_result<T>(fact: Fact<T>) -> Result<T, SwitchError> {
    match fact {
        Fact::Known(value) => Ok(value),
        Fact::Unknown(why) => Err(SwitchError::Unknown(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(current: &str) -> (tempfile::TempDir, Switchboard) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("available_clocksource"), "tsc kvm-clock \n").unwrap();
        std::fs::write(folder.path().join("current_clocksource"), current).unwrap();
        let board = Switchboard::in_folder(folder.path());
        (folder, board)
    }

    #[test]
    fn a_switch_is_read_back() {
        let (_folder, board) = board("tsc\n");
        assert_eq!(board.available().unwrap(), ["tsc", "kvm-clock"]);
        board.may_switch().unwrap();
        assert_eq!(board.current().unwrap(), "tsc");
        board.switch_to("kvm-clock").unwrap();
        assert_eq!(board.current().unwrap(), "kvm-clock");
    }

    #[test]
    fn a_write_that_changes_nothing_is_an_error() {
        let (folder, board) = board("tsc\n");
        let sink = folder.path().join("current_clocksource");
        std::fs::remove_file(&sink).unwrap();
        // A file that accepts every write and always reads the same.
        std::os::unix::fs::symlink("/proc/self/comm", &sink).unwrap();
        let error = board.switch_to("a-name-longer-than-the-15-that-comm-keeps").unwrap_err();
        assert!(matches!(error, SwitchError::NotTaken { .. }), "{error}");
    }

    #[test]
    fn a_machine_without_the_folder_is_reported_as_such() {
        let board = Switchboard::in_folder("/nowhere");
        assert!(matches!(board.current(), Err(SwitchError::Unknown(Unknown::NotThere { .. }))));
        assert!(matches!(board.may_switch(), Err(SwitchError::Write { .. })));
    }
}
