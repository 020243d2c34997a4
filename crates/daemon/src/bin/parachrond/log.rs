//! The log: the journal where standard error is connected to it, with fields
//! and priorities; else lines on standard error.

use std::io::Write;
use std::path::Path;

use daemon::{journal, manager, words};
use disruptions::text::time_of_day;
use keeper::event::Line;
use linux::journal::{Journal, SOCKET};

/// Where lines go.
pub(crate) struct DaemonLog {
    journal: Option<Journal>,
}

impl DaemonLog {
    /// systemd sets JOURNAL_STREAM where it has connected standard error to the
    /// journal (`man 5 systemd.exec`).
    pub(crate) fn open() -> Self {
        let is_journal = std::env::var_os("JOURNAL_STREAM").is_some();
        Self { journal: is_journal.then(|| Journal::open(Path::new(SOCKET)).ok()).flatten() }
    }

    /// Writes an event, and tells the service manager. The clock is kept though
    /// the log is lost.
    pub(crate) fn write(&self, line: &Line) {
        manager::notify(&line.event);
        let is_sent = self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.send(&journal::entry(line, "parachrond")).is_ok());
        if !is_sent {
            let at = time_of_day(line.at_unix_ns);
            let description = words::describe(&line.event);
            self.print(description.priority, &format!("{at}  {}", description.one_line()));
        }
    }

    /// Why it ends, and what to do about it.
    pub(crate) fn error(&self, cause: &str, remedy: &str) {
        for line in cause.lines().chain([&*format!("try: {remedy}")]) {
            self.print(journal::Priority::Error, &format!("parachrond: {line}"));
        }
    }

    /// What is right again.
    pub(crate) fn notice(&self, text: &str) {
        self.print(journal::Priority::Notice, &format!("parachrond: {text}"));
    }

    /// A line on standard error, with its priority for the journal, which takes
    /// `<3>` off again (`man 3 sd-daemon`).
    fn print(&self, priority: journal::Priority, text: &str) {
        let priority =
            self.journal.as_ref().map_or(String::new(), |_| format!("<{}>", priority as u8));
        let _ = std::io::stderr().write_all(format!("{priority}{text}\n").as_bytes());
    }
}
