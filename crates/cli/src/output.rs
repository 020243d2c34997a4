//! Output of results, in the form chosen by `--format`.
//!
//! Commands print by [`text`] or [`json`] and write files by [`file()`]: only
//! these handle a closed pipe and a full disk.

pub(crate) mod event_line;
pub(crate) mod plot;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use doctor::report_text::TextScreen;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::{CliError, NAME_ANOTHER};
pub(crate) use facts::parse::printable;

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text, as printed without this option
    Text,
    /// One JSON document; its schema: `parachron schema COMMAND`
    Json,
}

/// The forms of a line, for commands that print events as they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    /// For people
    Text,
    /// One JSON object per line; its schema: `parachron schema COMMAND`
    Json,
}

/// Writes `text` to standard output; an error means that it is not whole.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// `1 check`, `2 checks`.
pub(crate) fn number_of(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", instruments::figures::count(number), if number == 1 { "" } else { "s" })
}

/// Whether standard output shows colours: a terminal does unless NO_COLOR is
/// set or TERM is dumb.
pub(crate) fn colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// How the doctor's text is laid out.
pub(crate) fn screen(colours: bool) -> TextScreen {
    TextScreen { width: table::width(), colours }
}

/// Writes `value` to standard output as one JSON document.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CliError> {
    text(&json_document(value)?)
}

/// `value` as one JSON document.
pub(crate) fn json_document<T: Serialize>(value: &T) -> Result<String, CliError> {
    ended(serde_json::to_string_pretty(value))
}

/// `value` as a JSON object on a line.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Result<String, CliError> {
    ended(serde_json::to_string(value))
}

fn ended(json: serde_json::Result<String>) -> Result<String, CliError> {
    json.map(|json| json + "\n").map_err(|error| CliError::Failed {
        cause: format!("cannot serialise the JSON: {error}"),
        remedy: "use --format text, and report this bug".into(),
    })
}

/// Writes `content` to the file at `path`, by way of a temporary file: on a
/// full disk the old report survives.
pub(crate) fn file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), CliError> {
    let content = content.as_ref();
    let failed = |error| CliError::Write { path: path.into(), error };
    // A pipe, a terminal or a device given as the path cannot be replaced.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(path, content).map_err(failed);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.unfinished-{}", std::process::id()));
    let written = write_whole(&temporary, content).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // If the removal fails too, the first error is the one that counts.
        let _ = std::fs::remove_file(&temporary);
        failed(error)
    })
}

/// Whether [`file()`] may write to `path`: checked before a long measurement.
pub(crate) fn may_write(path: &Path) -> Result<(), CliError> {
    let is_other = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    let allowed = if path.is_dir() {
        Err(Errno::ISDIR)
    } else if is_other {
        access(path, Access::WRITE_OK)
    } else {
        // The dot is an error below a file, and this folder for a bare name.
        access(path.with_file_name("."), Access::WRITE_OK | Access::EXEC_OK)
    };
    allowed.map_err(|error| CliError::Failed {
        cause: format!("cannot write {}: {}", path.display(), std::io::Error::from(error)),
        remedy: NAME_ANOTHER.into(),
    })
}

fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(content)?;
    // A full or missing disk often reports an error only here.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_the_last_one_whole_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.svg");
        file(&path, "first, and longer").unwrap();
        file(&path, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.svg");
        let why = |path: &Path| may_write(path).unwrap_err().to_string();
        assert!(may_write(&path).is_ok());
        assert!(why(folder.path()).contains("Is a directory"));
        std::fs::write(&path, "").unwrap();
        assert!(may_write(&path).is_ok() && may_write(Path::new("/dev/full")).is_ok());
        assert!(why(&path.join("in a file.svg")).contains("Not a directory"));
        let error = why(Path::new("/no such folder/report.svg"));
        assert!(error.starts_with("cannot write /no such folder/report.svg: No such"), "{error}");
    }

    #[test]
    fn an_error_names_the_report_and_not_the_temporary_file() {
        for path in ["/dev/full", "/no such folder/report.svg"] {
            let error = file(Path::new(path), "text").unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write {path}: ")), "{error}");
        }
    }
}
