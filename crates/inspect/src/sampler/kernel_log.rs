//! New lines of the kernel's log.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use facts::Fact;
use facts::kernel::{self, LogLine};

/// The longest record (`CONSOLE_EXT_LOG_MAX` and `PRINTKRB_RECORD_MAX`,
/// kernel/printk); a longer line is split.
const RECORD_BYTES: usize = 8 << 10;

/// Records read for one sample: the next sample reads what a flood leaves.
const RECORDS: usize = 256;

/// Programs log with a facility from this on; the kernel's own is 0 (`man 3
/// syslog`). Anyone with access to the log can write such lines.
const FIRST_OF_PROGRAMS: u32 = 8;

/// The log from the point it was opened at.
#[derive(Debug)]
pub(super) struct GrowingLog {
    path: PathBuf,
    file: File,
    rest: Vec<u8>,
}

impl GrowingLog {
    /// Opens the log at its end.
    pub(super) fn open(path: &Path) -> Fact<Self> {
        let opened = || {
            let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            match file.seek(SeekFrom::End(0)) {
                // A pipe holds nothing older.
                Err(error) if error.kind() != ErrorKind::NotSeekable => Err(error),
                _ => Ok(Self { path: path.to_owned(), file, rest: Vec::new() }),
            }
        };
        crate::fact_of(&path.display().to_string(), opened())
    }

    /// Lines about clocks since the last call.
    pub(super) fn new_lines(&mut self) -> Fact<Vec<LogLine>> {
        let mut bytes = [0; RECORD_BYTES];
        for _ in 0..RECORDS {
            match self.file.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    // Overwritten before it was read: the next read returns
                    // the oldest record that is left.
                    ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                    _ => {
                        let what = self.path.display().to_string();
                        return Fact::Unknown(crate::unknown_of(&what, &error));
                    }
                },
            }
        }
        parse_growing_log(&take_whole_lines(&mut self.rest))
    }
}

/// All up to the last line end; text longer than a record is taken without.
fn take_whole_lines(rest: &mut Vec<u8>) -> String {
    let end = match rest.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => last + 1,
        None if rest.len() > RECORD_BYTES => rest.len(),
        None => 0,
    };
    String::from_utf8_lossy(&rest.drain(..end).collect::<Vec<_>>()).into_owned()
}

/// The kernel's own lines about clocks. A line that begins with a space
/// continues a record with its device, and is skipped.
pub fn parse_growing_log(text: &str) -> Fact<Vec<LogLine>> {
    let own: String = text
        .lines()
        .filter(|line| !line.starts_with(' ') && is_of_kernel(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    kernel::parse_log(&own)
}

/// A line without a priority is from a log file.
fn is_of_kernel(line: &str) -> bool {
    let head = line.split_once(';').map(|(head, _)| head);
    let priority = head.and_then(|head| head.split(',').next()?.parse::<u32>().ok());
    priority.is_none_or(|priority| priority < FIRST_OF_PROGRAMS)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::sampler::ProbePaths;
    use facts::kernel::LogEvent;

    fn events(lines: Fact<Vec<LogLine>>) -> Vec<LogEvent> {
        lines.value().unwrap().iter().map(|line| line.event.clone()).collect()
    }

    #[test]
    fn only_new_and_whole_lines_are_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"6,1,1,-;PM: suspend exit\n").unwrap();
        let Fact::Known(mut log) = GrowingLog::open(file.path()) else { panic!("not opened") };
        assert_eq!(events(log.new_lines()), []);
        file.write_all(b"5,2,9,-;random: crng reseeded due to virtual machine ").unwrap();
        assert_eq!(events(log.new_lines()), []);
        file.write_all(b"fork\n SUBSYSTEM=acpi\n6,3,9,-;eth0: up\n").unwrap();
        assert_eq!(events(log.new_lines()), [LogEvent::Restored]);
        assert_eq!(events(log.new_lines()), []);
    }

    #[test]
    fn lines_of_programs_are_ignored() {
        let text = "12,4,9,-;PM: suspend exit\n30,5,9,-;PM: suspend exit\n\
                    4,6,9,-;PM: suspend exit\n";
        assert_eq!(events(parse_growing_log(text)), [LogEvent::Resumed]);
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let mut rest = vec![b'x'; RECORD_BYTES + 1];
        assert_eq!(take_whole_lines(&mut rest).len(), RECORD_BYTES + 1);
        assert!(rest.is_empty());
    }

    #[test]
    fn the_kernels_log_opens_or_the_reason_is_known() {
        match GrowingLog::open(Path::new(ProbePaths::KERNEL_LOG)) {
            Fact::Known(mut log) => assert!(log.new_lines().value().is_some()),
            Fact::Unknown(why) => crate::skipped(&why.to_string()),
        }
    }
}
