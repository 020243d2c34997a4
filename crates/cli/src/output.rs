//! Output of results, in the form chosen by `--format`.
//!
//! Commands print by [`text`] or [`json`] and write files by [`file()`]: only
//! these handle a closed pipe and a full disk.

pub(crate) mod plot;
pub(crate) mod table;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use disruptions::text::time_of_day;
use doctor::report_text::TextScreen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::{CliError, NAME_ANOTHER};
use crate::output::table::{width, wrap};

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

/// Columns of time and kind, before the message: `LEAP SECOND` and
/// `clocksource` are the longest.
const INDENT: usize = 26;

/// Columns of time and two spaces, before what continues a [`message_line`].
const MESSAGE_INDENT: usize = 16;

/// A line with a column for its kind, and what does not fit on it below;
/// without a line end at its end.
pub(crate) fn event_line(at_unix_ns: Option<u64>, kind: &str, message: &[String]) -> String {
    let begin = format!("{}  {kind:<11} ", time_of_day(at_unix_ns));
    begin + &indented(message, INDENT)
}

/// A line that begins with its kind and a colon, and what does not fit on it
/// below; without a line end at its end.
pub(crate) fn message_line(at_unix_ns: Option<u64>, kind: &str, message: &[String]) -> String {
    let (first, rest) = message.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut message = vec![format!("{kind}: {first}")];
    message.extend_from_slice(rest);
    format!("{}  {}", time_of_day(at_unix_ns), indented(&message, MESSAGE_INDENT))
}

/// The lines, wrapped, all but the first behind so many spaces.
fn indented(message: &[String], indent: usize) -> String {
    let wrapped: Vec<_> =
        message.iter().map(|part| wrap(&printable(part), width() - indent)).collect();
    let lines: Vec<_> = wrapped.iter().flat_map(|part| part.lines()).collect();
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// The bar, then the current step.
const TEMPLATE: &str = "{bar:30} {percent:>3} %  {wide_msg}";

/// At most this often: drawing takes time from the measurement.
const DRAWS_PER_S: u8 = 10;

/// A bar over work of known duration; cleared when dropped.
pub(crate) struct TerminalProgress {
    bar: ProgressBar,
    expected: Duration,
    doing: RefCell<String>,
}

impl TerminalProgress {
    /// A bar at its start, over work that should take `expected`.
    pub(crate) fn new(expected: Duration) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
        let bar = ProgressBar::with_draw_target(Some(milliseconds(expected)), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.tick();
        Self { bar, expected, doing: RefCell::default() }
    }

    /// Shows the current step, and the time elapsed; cheap enough to call a
    /// thousand times a second.
    pub(crate) fn doing(&self, what: &str) {
        self.show_at(self.bar.elapsed(), what);
    }

    /// The same, for work that knows its progress: the position after `done`.
    pub(crate) fn show_at(&self, done: Duration, what: &str) {
        if *self.doing.borrow() != what {
            what.clone_into(&mut self.doing.borrow_mut());
            self.bar.set_message(printable(what));
        }
        self.bar.set_position(milliseconds(done.min(self.expected)));
    }
}

impl Drop for TerminalProgress {
    /// Clears the line for the output that follows.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
