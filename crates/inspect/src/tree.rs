//! Where facts are read from: this machine, or a folder captured on another.
//!
//! # The form of a tree
//!
//! A tree is a folder with the files of a Linux system at their own paths
//! (`proc/cmdline`, `sys/class/ptp/ptp0/clock_name`), and one folder more,
//! `parachron`, for what is not in any file: one text file for each
//! [`Tree::probe`] and [`Tree::digest`], named and described where it is read
//! (and all together in `testdata/machines/formats.tsv`).
//!
//! A captured tree also has [`manifest::PATH`], which keeps the reason of each
//! unknown fact, so that "needs root" stays "needs root" elsewhere. A tree made
//! by hand needs none.
//!
//! # One path for live and captured
//!
//! One pure parser reads each fact from text, whether the text comes from the
//! running kernel or a file. Text is reduced (see [`Tree::reduced`]) *before*
//! it is parsed, live too: no reader depends on what a capture does not keep.

mod files;
pub mod manifest;
mod recording;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

pub use files::Files;
pub use recording::{ReadOutcome, RecordedEntry, Recording, WriteError};

use facts::{Fact, Unknown};
use manifest::Manifest;

/// No file that a fact is read from whole comes near this.
const TEXT_LIMIT_BYTES: u64 = 1 << 20;

const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource";

/// A source of facts.
#[derive(Debug)]
pub struct Tree {
    files: Files,
    index: Index,
    recording: Option<RefCell<Recording>>,
}

/// A tree's record of its capture.
#[derive(Debug)]
enum Index {
    /// Live, or made by hand: none.
    None,
    /// Captured.
    Manifest(Manifest),
    /// Captured, but the manifest is not readable.
    Damaged(Unknown),
}

/// Why facts cannot be read from a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// It cannot be opened as a folder.
    #[error("cannot open the folder {}: {error}", path.display())]
    Open {
        /// Which folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A later version of the program wrote it.
    #[error("{} was captured in format {found}; this version reads up to {}", path.display(), manifest::FORMAT)]
    Newer {
        /// Which folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl Tree {
    /// The machine this runs on.
    pub fn live() -> Self {
        Self { files: Files::live(), index: Index::None, recording: None }
    }

    /// A folder that [`Recording::write`] wrote, or one made by hand.
    pub fn captured(path: &Path) -> Result<Self, TreeError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| TreeError::Open { path: path.to_owned(), error: error.into() })?;
        let files = Files::below(folder);
        let index = match files.bytes(manifest::PATH, TEXT_LIMIT_BYTES) {
            Fact::Unknown(Unknown::NotThere { .. }) => Index::None,
            Fact::Unknown(why) => Index::Damaged(why),
            Fact::Known(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                match Manifest::parse(&text) {
                    Ok(manifest) if manifest.format > manifest::FORMAT => {
                        let found = manifest.format;
                        return Err(TreeError::Newer { path: path.to_owned(), found });
                    }
                    Ok(manifest) => Index::Manifest(manifest),
                    Err(error) => {
                        let expected = format!("a manifest ({error})");
                        Index::Damaged(Unknown::malformed(manifest::PATH, &expected, &text))
                    }
                }
            }
        };
        Ok(Self { files, index, recording: None })
    }

    /// A machine of which nothing is known.
    pub fn empty() -> std::io::Result<Self> {
        // No path leads through a file that is no folder.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/null", flags, Mode::empty())?;
        Ok(Self { files: Files::below(file), index: Index::None, recording: None })
    }

    /// The same tree, recording all that is read from it.
    pub fn recording(self) -> Self {
        Self { recording: Some(RefCell::default()), ..self }
    }

    /// All that was read since [`Tree::recording`].
    pub fn into_recording(self) -> Recording {
        self.recording.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.files.is_live()
    }

    /// A file's text.
    pub fn text(&self, path: &str) -> Fact<String> {
        let read = self.read(path);
        self.note(path, None, read)
    }

    /// The part of a file's text that concerns time and may leave the
    /// machine. `keep` describes that part for people; `reduce` applied to its
    /// own result must change nothing, since a captured file is reduced
    /// again when it is read.
    pub fn reduced(
        &self,
        path: &str,
        keep: &'static str,
        reduce: impl FnOnce(&str) -> String,
    ) -> Fact<String> {
        let read = self.read(path).map(|text| reduce(&text));
        self.note(path, Some(keep), read)
    }

    /// When this tree was captured by that machine's clock, s since 1970, where
    /// it is a capture that says.
    pub fn captured_unix_s(&self) -> Option<u64> {
        match &self.index {
            Index::Manifest(manifest) => Some(manifest.taken_unix_s).filter(|s| *s != 0),
            _ => None,
        }
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        let mut names = self.with_reason(path, self.files.names(path));
        if let Index::Manifest(manifest) = &self.index
            && let Some(listed) = manifest.listed.get(path)
        {
            // An empty folder may have been lost on the way here.
            let mut all = names.value().cloned().unwrap_or_default();
            all.extend(listed.iter().cloned());
            all.sort();
            all.dedup();
            names = Fact::Known(all);
        }
        if let Some(recording) = &self.recording {
            recording.borrow_mut().note_names(path, &names);
        }
        names
    }

    /// A fact that is in no file: `live` reads it from the kernel or a program; in
    /// a captured tree it is the file `parachron/<name>`.
    pub fn probe(&self, name: &str, live: impl FnOnce() -> Fact<String>) -> Fact<String> {
        self.probe_keeping(name, None, live)
    }

    /// As [`Tree::probe`], where `live` leaves out what must not leave the
    /// machine; `keep` describes for people what it keeps.
    pub fn probe_reduced(
        &self,
        name: &str,
        keep: &'static str,
        live: impl FnOnce() -> Fact<String>,
    ) -> Fact<String> {
        self.probe_keeping(name, Some(keep), live)
    }

    fn probe_keeping(
        &self,
        name: &str,
        keep: Option<&'static str>,
        live: impl FnOnce() -> Fact<String>,
    ) -> Fact<String> {
        let path = format!("parachron/{name}");
        let text = if self.is_live() {
            live().map(|text| clean(text.as_bytes()))
        } else {
            self.read(&path)
        };
        self.note(&path, keep, text)
    }

    /// A digest of files too large, binary or private to save as they are: `make`
    /// makes it from the running machine's files, or those of a tree made by hand;
    /// a captured tree has it in `parachron/<name>`.
    pub fn digest(
        &self,
        name: &str,
        keep: &'static str,
        make: impl FnOnce(&Files) -> Fact<String>,
    ) -> Fact<String> {
        let path = format!("parachron/{name}");
        let mut made = None;
        if !self.is_live() {
            made = match (self.read(&path), &self.index) {
                // It was never captured.
                (Fact::Unknown(Unknown::NotThere { what }), _) if what == path => None,
                (read, _) => Some(read),
            };
        }
        let made = made.unwrap_or_else(|| make(&self.files).map(|text| clean(text.as_bytes())));
        self.note(&path, Some(keep), made)
    }

    fn read(&self, path: &str) -> Fact<String> {
        let bytes = self.files.bytes(path, TEXT_LIMIT_BYTES);
        let whole = bytes.and_then(|bytes| match self.expected_length(path, &bytes) {
            Some(expected) => {
                let found = format!("{} bytes", bytes.len());
                Fact::Unknown(Unknown::malformed(path, &expected, &found))
            }
            None => Fact::Known(clean(&bytes)),
        });
        self.with_reason(path, whole)
    }

    /// What a captured file should be, if it is not whole: its manifest has its length, and each
    /// file in a tree made by hand ends with a line.
    fn expected_length(&self, path: &str, bytes: &[u8]) -> Option<String> {
        if let Index::Manifest(manifest) = &self.index
            && let Some(taken) = manifest.taken.get(path)
        {
            let whole = taken.bytes;
            return (whole != bytes.len() as u64).then(|| format!("{whole} bytes, as captured"));
        }
        let is_by_hand = !self.is_live() && !matches!(self.index, Index::Damaged(_));
        let is_cut = is_by_hand && !bytes.is_empty() && !bytes.ends_with(b"\n");
        is_cut.then(|| "a whole file, which ends with a line".to_owned())
    }

    /// Replaces "not there" by the manifest's reason.
    fn with_reason<T>(&self, path: &str, read: Fact<T>) -> Fact<T> {
        match (&read, &self.index) {
            (Fact::Unknown(Unknown::NotThere { .. }), Index::Damaged(why)) => {
                Fact::Unknown(why.clone())
            }
            (Fact::Unknown(Unknown::NotThere { .. }), Index::Manifest(manifest)) => {
                if let Some(why) = manifest.not_taken.get(path) {
                    return Fact::Unknown(why.clone());
                }
                if manifest.taken.contains_key(path) {
                    return Fact::Unknown(Unknown::Unreadable {
                        what: path.to_owned(),
                        error: "captured, but missing in the folder".to_owned(),
                    });
                }
                self.unless_part(path, read)
            }
            (Fact::Unknown(Unknown::NotThere { .. }), Index::None) => self.unless_part(path, read),
            _ => read,
        }
    }

    /// What no manifest names was not looked for where somebody put a few facts together: any
    /// machine with /sys has clock sources, and any machine has /proc/cpuinfo.
    fn unless_part<T>(&self, path: &str, read: Fact<T>) -> Fact<T> {
        let is_of_clocks = path.starts_with(CLOCK_SOURCES);
        let is_part = || is_of_clocks || !self.files.exists("/proc/cpuinfo");
        let lacks = || !self.files.exists(CLOCK_SOURCES) && is_part();
        if self.is_live() || !path.starts_with("/sys/") || !lacks() {
            return read;
        }
        Fact::Unknown(Unknown::NotCaptured { what: path.to_owned() })
    }

    fn note(&self, path: &str, keep: Option<&'static str>, read: Fact<String>) -> Fact<String> {
        if let Some(recording) = &self.recording {
            recording.borrow_mut().note_text(path, keep, &read);
        }
        read
    }
}

/// Text of any bytes: replaces what is not UTF-8, and control characters, which
/// would act on the terminal that shows a report.
pub fn clean(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .replace("\r\n", "\n")
        .chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
