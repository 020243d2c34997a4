//! The serial line for the output of background programs: each line is stamped
//! on receipt.

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::wire::connect;

/// This machine's time of day, ns since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
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
