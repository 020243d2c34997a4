//! Output of results. Commands print by [`text`] and write files by [`file()`]: only these handle
//! a closed pipe and a full disk.

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::CommandError;

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people, 80 columns
    Text,
    /// One JSON document; its schema: `fleet-map schema`
    Json,
}

/// Writes `text` to standard output; an error means that it is not whole.
pub(crate) fn text(text: &str) -> Result<(), CommandError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes `value` to standard output as one JSON document.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CommandError> {
    text(&ended(serde_json::to_string_pretty(value))?)
}

/// JSON with a newline at its end.
pub(crate) fn ended(json: serde_json::Result<String>) -> Result<String, CommandError> {
    json.map(|json| json + "\n").map_err(|error| CommandError::Failed {
        cause: format!("cannot serialise the JSON: {error}"),
        remedy: "use --format text, and report this bug".into(),
    })
}

/// Writes `content` to the file at `path`, by way of a temporary file: on a
/// full disk the old report survives.
pub(crate) fn file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), CommandError> {
    let content = content.as_ref();
    let failed = |error| CommandError::Write { path: path.into(), error };
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
        let path = folder.path().join("map.html");
        file(&path, "first, and longer").unwrap();
        file(&path, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_report_and_not_the_temporary_file() {
        for path in ["/dev/full", "/no such folder/map.html"] {
            let error = file(Path::new(path), "text").unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write {path}: ")), "{error}");
        }
    }
}
