//! What was read, and how it becomes a captured tree.
//!
//! A tree appears whole or not at all: it is written under a temporary name in
//! the same folder, its manifest last, and then renamed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::manifest::{self, CaptureTime, Manifest};
use facts::{Fact, Unknown};

/// Everything read from a tree, by path.
#[derive(Debug, Default)]
pub struct Recording {
    entries: BTreeMap<String, RecordedEntry>,
}

/// One thing read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEntry {
    /// The part that a capture keeps, where that is not all.
    pub kept: Option<&'static str>,
    /// The result of reading it.
    pub outcome: ReadOutcome,
}

/// The result of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Text.
    Text(String),
    /// The names in a folder.
    Names(Vec<String>),
    /// It could not be read.
    Unknown(Unknown),
}

/// Why a tree was not written. The unfinished one was removed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The path exists.
    #[error("{} exists and is not an empty folder", path.display())]
    NotEmpty {
        /// Which path.
        path: PathBuf,
    },
    /// A path that cannot be the name of a new folder: `/`, `..`.
    #[error("{} cannot be the name of a new folder", path.display())]
    NoName {
        /// Which path.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// What could not be written.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl Recording {
    /// All that was read, by path.
    pub fn entries(&self) -> &BTreeMap<String, RecordedEntry> {
        &self.entries
    }

    pub(super) fn note_text(
        &mut self,
        path: &str,
        kept: Option<&'static str>,
        read: &Fact<String>,
    ) {
        let outcome = match read {
            Fact::Known(text) => ReadOutcome::Text(text.clone()),
            Fact::Unknown(why) => ReadOutcome::Unknown(why.clone()),
        };
        self.entries.insert(path.to_owned(), RecordedEntry { kept, outcome });
    }

    pub(super) fn note_names(&mut self, path: &str, names: &Fact<Vec<String>>) {
        let outcome = match names {
            Fact::Known(names) => ReadOutcome::Names(names.clone()),
            Fact::Unknown(why) => ReadOutcome::Unknown(why.clone()),
        };
        self.entries.insert(path.to_owned(), RecordedEntry { kept: None, outcome });
    }

    /// The manifest of a tree captured at `taken_unix_s` by version `parachron`.
    pub fn manifest(&self, parachron: &str, taken_unix_s: u64) -> Manifest {
        let mut manifest = Manifest {
            format: manifest::FORMAT,
            parachron: parachron.to_owned(),
            taken_unix_s,
            ..Manifest::default()
        };
        for (path, entry) in &self.entries {
            let path = path.clone();
            match &entry.outcome {
                ReadOutcome::Text(text) => {
                    let kept = entry.kept.map(str::to_owned);
                    manifest.taken.insert(path, CaptureTime { bytes: text.len() as u64, kept });
                }
                ReadOutcome::Names(names) => {
                    manifest.listed.insert(path, names.clone());
                }
                ReadOutcome::Unknown(why) => {
                    manifest.not_taken.insert(path, why.clone());
                }
            }
        }
        manifest
    }

    /// Writes the tree to `place`, which must not exist or be an empty folder.
    pub fn write(&self, place: &Path, manifest: &Manifest) -> Result<(), WriteError> {
        if fs::symlink_metadata(place).is_ok() && !is_empty_folder(place) {
            return Err(WriteError::NotEmpty { path: place.to_owned() });
        }
        let name =
            place.file_name().ok_or_else(|| WriteError::NoName { path: place.to_owned() })?;
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(format!(".unfinished-{}", std::process::id()));
        let unfinished = place.with_file_name(unfinished);

        let written = fs::create_dir(&unfinished)
            .map_err(|error| WriteError::Io { path: place.to_owned(), error })
            .and_then(|()| self.fill(&unfinished, manifest))
            .and_then(|()| {
                // rename(2) takes the place of an empty folder, and of no other.
                fs::rename(&unfinished, place)
                    .map_err(|error| WriteError::Io { path: place.to_owned(), error })
            });
        if written.is_err() {
            // A failure here must not hide the first error.
            let _ = fs::remove_dir_all(&unfinished);
        }
        written.map_err(|error| error.named(&unfinished, place))
    }

    fn fill(&self, folder: &Path, manifest: &Manifest) -> Result<(), WriteError> {
        for (path, entry) in &self.entries {
            match &entry.outcome {
                ReadOutcome::Text(text) => put(&folder.join(path.trim_start_matches('/')), text)?,
                ReadOutcome::Names(names) => {
                    for name in names {
                        let path = folder.join(path.trim_start_matches('/')).join(name);
                        fs::create_dir_all(&path)
                            .map_err(|error| WriteError::Io { path, error })?;
                    }
                }
                ReadOutcome::Unknown(_) => {}
            }
        }
        let json = serde_json::to_string_pretty(manifest)
            .map_err(|error| WriteError::Io { path: manifest::PATH.into(), error: error.into() })?;
        put(&folder.join(manifest::PATH), &(json + "\n"))
    }
}

impl WriteError {
    /// Names the requested path, not the unfinished one.
    fn named(self, unfinished: &Path, place: &Path) -> Self {
        match self {
            Self::Io { path, error } => {
                let path = match path.strip_prefix(unfinished) {
                    Ok(inside) => place.join(inside),
                    Err(_) => path,
                };
                Self::Io { path, error }
            }
            other => other,
        }
    }
}

fn is_empty_folder(place: &Path) -> bool {
    // A link to an empty folder could not be replaced by rename(2).
    !place.is_symlink() && fs::read_dir(place).is_ok_and(|mut names| names.next().is_none())
}

fn put(path: &Path, text: &str) -> Result<(), WriteError> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::File::create_new(path)?;
        file.write_all(text.as_bytes())?;
        // A full disk may be reported only here.
        file.sync_all()
    };
    write().map_err(|error| WriteError::Io { path: path.to_owned(), error })
}
