//! The kernel's log as it grows.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use facts::Fact;
use facts::kernel::{LogLine, log};

/// Where the kernel has it.
pub const KERNEL_LOG: &str = "/dev/kmsg";

/// One record is at most this long (`CONSOLE_EXT_LOG_MAX` and
/// `PRINTKRB_RECORD_MAX`, kernel/printk); a longer line is cut.
const RECORD_BYTES: usize = 8 << 10;

/// Records taken at once: a log that floods is read on at the next look.
const RECORDS: usize = 256;

/// Lines of programs carry a facility from this on; the kernel's own is 0
/// (`man 3 syslog`). Anyone with access can write such lines.
const FIRST_OF_PROGRAMS: u32 = 8;

/// The log's end, from which it is read on.
#[derive(Debug)]
pub struct GrowingLog {
    path: PathBuf,
    file: File,
    rest: Vec<u8>,
}

impl GrowingLog {
    /// Opens the log; what it holds already is left out.
    pub fn open(path: &Path) -> Fact<Self> {
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                return Fact::Unknown(crate::privilege::why(&path.display().to_string(), &error));
            }
        };
        match file.seek(SeekFrom::End(0)) {
            // A pipe has no past.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotSeekable => {}
            Err(error) => {
                return Fact::Unknown(crate::privilege::why(&path.display().to_string(), &error));
            }
        }
        Fact::Known(Self { path: path.to_owned(), file, rest: Vec::new() })
    }

    /// Lines about clocks that came since the last time.
    pub fn new_lines(&mut self) -> Fact<Vec<LogLine>> {
        let mut bytes = [0; RECORD_BYTES];
        for _ in 0..RECORDS {
            match self.file.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    // Overwritten before it was read: the next read goes on
                    // with the oldest that is left.
                    ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                    _ => {
                        let what = self.path.display().to_string();
                        return Fact::Unknown(crate::privilege::why(&what, &error));
                    }
                },
            }
        }
        parse_growing_log(&take_whole_lines(&mut self.rest))
    }
}

/// All up to the last line end; what has none by the length of a record is
/// taken as it is.
fn take_whole_lines(rest: &mut Vec<u8>) -> String {
    let end = match rest.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => last + 1,
        None if rest.len() > RECORD_BYTES => rest.len(),
        None => 0,
    };
    String::from_utf8_lossy(&rest.drain(..end).collect::<Vec<_>>()).into_owned()
}

/// The kernel's own lines about clocks. Lines that go on a record (they begin
/// with a space) name its device, and are left out.
pub fn parse_growing_log(text: &str) -> Fact<Vec<LogLine>> {
    let own: String = text
        .lines()
        .filter(|line| !line.starts_with(' ') && is_the_kernels(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    log::parse(&own)
}

/// A line without a head is one of a log file.
fn is_the_kernels(line: &str) -> bool {
    let head = line.split_once(';').map(|(head, _)| head);
    let priority = head.and_then(|head| head.split(',').next()?.parse::<u32>().ok());
    priority.is_none_or(|priority| priority < FIRST_OF_PROGRAMS)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use facts::kernel::LogEvent;

    fn events(lines: Fact<Vec<LogLine>>) -> Vec<LogEvent> {
        lines.known().unwrap().iter().map(|line| line.event.clone()).collect()
    }

    #[test]
    fn only_what_comes_is_read_and_only_whole_lines() {
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
    fn what_programs_write_is_not_believed() {
        let text = "12,4,9,-;PM: suspend exit\n30,5,9,-;PM: suspend exit\n\
                    4,6,9,-;PM: suspend exit\n";
        assert_eq!(events(parse_growing_log(text)), [LogEvent::Resumed]);
    }

    #[test]
    fn a_line_without_an_end_does_not_grow_for_ever() {
        let mut rest = vec![b'x'; RECORD_BYTES + 1];
        assert_eq!(take_whole_lines(&mut rest).len(), RECORD_BYTES + 1);
        assert!(rest.is_empty());
    }

    #[test]
    fn the_kernels_log_opens_or_says_why_not() {
        match GrowingLog::open(Path::new(KERNEL_LOG)) {
            Fact::Known(mut log) => assert!(log.new_lines().known().is_some()),
            Fact::Unknown(why) => crate::skipped(&why.to_string()),
        }
    }
}
