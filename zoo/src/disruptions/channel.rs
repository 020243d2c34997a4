//! The two serial lines of an interactive guest: one for commands and their
//! records, and one for the output of background programs, each line of which
//! is stamped on receipt.

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::records::{self, Record};
use crate::wire::{Wire, connect};

/// Wall-clock time beyond a command's limit in the guest until it has failed:
/// the guest is slow while the machine is busy.
const GRACE: Duration = Duration::from_secs(30);

/// This machine's time of day, ns since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The line for commands and their records.
#[derive(Debug)]
pub(crate) struct CommandLine(Wire);

impl CommandLine {
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        Ok(Self(connect(path)?.into()))
    }

    /// Waits until the guest accepts commands.
    pub(crate) fn ready(&mut self, boot: Duration) -> Result<(), String> {
        self.record("ready", boot).map(drop)
    }

    /// Runs a command, which is one line, and returns its record.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        self.0.send(name, &format!("{name} {limit_s} {line}\n"))?;
        self.record(name, Duration::from_secs(limit_s.into()) + GRACE)
    }

    /// The next record, which must have this name.
    fn record(&mut self, name: &str, limit: Duration) -> Result<Record, String> {
        let start = Instant::now();
        loop {
            let (mut records, _) = records::parse(&self.0.received);
            if records.is_empty() {
                self.0.receive(&format!("record of {name}"), start, limit)?;
                continue;
            }
            self.0.received.clear();
            if records.len() == 1 && records[0].name == name {
                return Ok(records.remove(0));
            }
            let found: Vec<String> = records.into_iter().map(|record| record.name).collect();
            return Err(format!("expected the record of {name}, found {}", found.join(", ")));
        }
    }
}

/// One line of output, stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// When it was received, by this machine's time of day, ns since 1970.
    pub(crate) at_ns: i64,
    pub(crate) text: String,
}

impl Line {
    /// The JSON object on it, if it has one.
    pub(crate) fn object(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok().filter(Value::is_object)
    }
}

/// The line for the output of background programs.
#[derive(Debug)]
pub(crate) struct Output {
    receiver: Receiver<Line>,
    /// All lines received so far.
    lines: Vec<Line>,
}

impl Output {
    /// Connects; every line from now on is received.
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        let stream = connect(path)?;
        let (sender, receiver) = mpsc::channel();
        // Ends with the connection, which ends with QEMU, or with the receiver.
        thread::spawn(move || read_lines(stream, |line| sender.send(line).is_ok()));
        Ok(Self { receiver, lines: Vec::new() })
    }

    /// Continues with another connection.
    pub(crate) fn switch_to(&mut self, other: Self) {
        self.lines();
        self.receiver = other.receiver;
    }

    /// All lines received until now.
    pub(crate) fn lines(&mut self) -> &[Line] {
        self.lines.extend(self.receiver.try_iter());
        &self.lines
    }

    /// The index of the first line received at a moment or after it.
    pub(crate) fn since(&mut self, at_ns: i64) -> usize {
        self.lines().partition_point(|line| line.at_ns < at_ns)
    }

    /// Waits for a line that is wanted, from an index on; none if the limit
    /// comes first or the guest has ended.
    pub(crate) fn wait_for<T>(
        &mut self,
        from: usize,
        limit: Duration,
        mut wanted: impl FnMut(&Line) -> Option<T>,
    ) -> Option<T> {
        let start = Instant::now();
        let mut next = from;
        loop {
            while let Some(line) = self.lines.get(next) {
                if let Some(found) = wanted(line) {
                    return Some(found);
                }
                next += 1;
            }
            let left = limit.saturating_sub(start.elapsed());
            self.lines.push(self.receiver.recv_timeout(left).ok()?);
        }
    }
}

/// Stamps each line with the moment at which its end was received.
fn read_lines(mut stream: impl Read, mut receive: impl FnMut(Line) -> bool) {
    let mut partial = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let length = match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let at_ns = now_ns();
        for &byte in &bytes[..length] {
            if byte != b'\n' {
                partial.push(byte);
                continue;
            }
            let text = String::from_utf8_lossy(&partial).into_owned();
            partial.clear();
            if !receive(Line { at_ns, text }) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::wire::CONNECT;

    fn pair() -> (CommandLine, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        (CommandLine(stream.into()), theirs)
    }

    #[test]
    fn a_command_is_one_line_and_its_record_is_returned() {
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record date 0 1.00 1.01 4 0\nnow\n\n").unwrap();
        let record = commands.run("date", 5, "date +%s").unwrap();
        assert_eq!((record.stdout.as_str(), record.status), ("now\n", 0));
        let mut request = [0; 16];
        theirs.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"date 5 date +%s\n");
    }

    #[test]
    fn anything_but_the_record_is_an_error() {
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record other 0 1.00 1.01 0 0\n\n").unwrap();
        let error = commands.run("date", 5, "date").unwrap_err();
        assert_eq!(error, "expected the record of date, found other");
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record date 0 1").unwrap();
        let error = commands.record("date", Duration::from_millis(30)).unwrap_err();
        assert_eq!(error, "no record of date within 0.03 s, only \"@record date 0 1\"");
        drop(theirs);
        let error = commands.record("date", Duration::from_secs(9)).unwrap_err();
        assert_eq!(error, "waiting for record of date: QEMU closed the connection");
    }

    #[test]
    fn lines_are_complete_and_those_waited_for_are_kept() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (sender, receiver) = mpsc::channel();
        let before_ns = now_ns();
        theirs.write_all(b"tick 1\ntick ").unwrap();
        theirs.write_all(b"2\ncut").unwrap();
        drop(theirs);
        read_lines(ours, |line| sender.send(line).is_ok());
        drop(sender);
        let mut output = Output { receiver, lines: Vec::new() };
        let second = output.wait_for(0, CONNECT, |line| line.text.strip_prefix("tick 2").map(drop));
        assert_eq!(second, Some(()));
        assert_eq!(output.wait_for(1, CONNECT, |line| (line.text == "tick 1").then_some(())), None);
        assert_eq!((output.since(before_ns), output.since(i64::MAX)), (0, 2));
        let lines = output.lines();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["tick 1", "tick 2"]);
        assert!(lines.iter().all(|line| (before_ns..=now_ns()).contains(&line.at_ns)));
    }
}
