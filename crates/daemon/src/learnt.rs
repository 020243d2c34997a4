//! The learnt frequency, kept in the state folder for the next start.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use inspect::live::CurrentClocksource;
use keeper::{Learnt, LearntFrequency};
use linux::published::{new_file, open_at_once};

/// The file in that folder.
const NAME: &str = "frequency";

/// More than it ever holds.
const BYTES: u64 = 512;

/// How often it is stored: it changes little, and disks wear.
const INTERVAL: Duration = Duration::from_secs(3600);

/// When it is first stored: then it is known well.
const FIRST: Duration = Duration::from_secs(300);

/// Where the learnt frequency is stored, if anywhere.
#[derive(Debug)]
pub(crate) struct LearntFile {
    folder: Option<PathBuf>,
    /// Reads the clock source in use, where the kernel shows it.
    clocksource: fn() -> Option<String>,
    due: Instant,
}

impl LearntFile {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, clocksource, due: Instant::now() + FIRST }
    }

    /// What was stored, if it is of the clock source in use.
    ///
    /// # Errors
    /// The file is not whole, or cannot be read. That there is none is no
    /// error.
    pub(crate) fn load(&self) -> Result<Option<LearntFrequency>, String> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(NAME)) else {
            return Ok(None);
        };
        let why = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut text = String::new();
        let read = open_at_once(&path).and_then(|file| file.take(BYTES).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(why(&error)),
            Ok(_) => {}
        }
        let learnt: Learnt = text.parse().map_err(|error| why(&error))?;
        Ok((Some(learnt.clocksource) == (self.clocksource)()).then_some(learnt.frequency))
    }

    /// Stores what is known, if that is due, or `is_last`.
    ///
    /// # Errors
    /// The folder cannot be written to. It is tried again when it is due next.
    pub(crate) fn store(
        &mut self,
        frequency: Option<LearntFrequency>,
        is_last: bool,
    ) -> Result<(), String> {
        let (Some(folder), Some(frequency)) = (&self.folder, frequency) else { return Ok(()) };
        if !is_last && Instant::now() < self.due {
            return Ok(());
        }
        self.due = Instant::now() + INTERVAL;
        let Some(clocksource) = (self.clocksource)() else { return Ok(()) };
        let path = folder.join(NAME);
        new_file(&path, Learnt { clocksource, frequency }.to_string().as_bytes())
            .map(drop)
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn clocksource() -> Option<String> {
    CurrentClocksource::open().value()?.name().value().cloned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_read_back_and_what_is_corrupt_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LearntFile::new(Some(folder.path().to_owned()));
        // A container may hide it.
        file.clocksource = || None;
        let frequency = LearntFrequency { ppb: 12.5, uncertainty_ppb: 101.0 };
        file.store(Some(frequency), true).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "of no known clock source");
        file.clocksource = || Some("tsc".to_owned());
        assert_eq!(file.load(), Ok(None));
        file.store(Some(frequency), false).unwrap();
        assert_eq!(file.load(), Ok(None), "not due");
        file.store(None, true).unwrap();
        file.store(Some(frequency), true).unwrap();
        assert_eq!(file.load(), Ok(Some(frequency)));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        let path = folder.path().join(NAME);
        // Of another clock source it says nothing.
        let text = fs::read_to_string(&path).unwrap();
        let other = text.replace("tsc", "sundial");
        fs::write(&path, other).unwrap();
        assert_eq!(file.load(), Ok(None));
        for corrupt in [&text[..30], "", "\0\0\0", &"x".repeat(1 << 20)] {
            fs::write(&path, corrupt).unwrap();
            let why = file.load().unwrap_err();
            assert!(why.starts_with(&path.display().to_string()), "{why}");
        }
        // A disk that was full, or power that was lost, may cut it anywhere.
        for length in 0..text.len() {
            fs::write(&path, &text[..length]).unwrap();
            let read = file.load();
            assert!(read.is_err(), "{:?}: {read:?}", &text[..length]);
        }
        fs::remove_file(&path).unwrap();
        drop(folder);
        assert!(file.store(Some(frequency), true).is_err());
    }

    #[test]
    fn a_pipe_is_not_waited_for_and_a_link_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut file = LearntFile::new(Some(folder.path().to_owned()));
        file.clocksource = || Some("tsc".to_owned());
        let frequency = LearntFrequency { ppb: 12.5, uncertainty_ppb: 101.0 };
        assert!(Command::new("mkfifo").arg(at(NAME)).status().unwrap().success());
        assert!(file.load().is_err());
        assert!(file.store(Some(frequency), true).unwrap_err().contains("no regular file"));
        fs::remove_file(at(NAME)).unwrap();
        fs::write(at("letter"), "kept").unwrap();
        symlink("letter", at("frequency.new")).unwrap();
        file.store(Some(frequency), true).unwrap();
        assert_eq!(file.load(), Ok(Some(frequency)));
        assert_eq!(fs::read(at("letter")).unwrap(), b"kept");
    }
}
