//! The two lines to a guest that is talked with: one on which it gets its
//! commands and sends their records, and one on which programs in it tell of
//! its clocks while they run, each line stamped as it comes in.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::nested::records::{self, Record};

/// How long QEMU may take to make its sockets.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Wall-clock time beyond a command's limit in the guest until it is given up:
/// the guest is slow while the machine is busy.
const GRACE: Duration = Duration::from_secs(30);

/// This machine's time of day, ns since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn connect(path: &Path) -> Result<UnixStream, String> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() >= AT_ONCE => {
                return Err(format!("{}: {error}", path.display()));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Where commands go and records come from.
#[derive(Debug)]
pub(crate) struct Commands {
    stream: UnixStream,
    /// What came of the record that is not whole.
    begun: Vec<u8>,
}

impl Commands {
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        Ok(Self { stream: connect(path)?, begun: Vec::new() })
    }

    /// Waits until the guest says that it listens.
    pub(crate) fn ready(&mut self, boot: Duration) -> Result<(), String> {
        self.record("ready", boot).map(drop)
    }

    /// Has a command line run, which is one line, and hands on its record.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        let asked = format!("{name} {limit_s} {line}\n");
        self.stream.write_all(asked.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
        self.record(name, Duration::from_secs(limit_s.into()) + GRACE)
    }

    /// The next record, which must be of this name.
    fn record(&mut self, name: &str, limit: Duration) -> Result<Record, String> {
        let start = Instant::now();
        loop {
            let (mut records, _) = records::parse(&self.begun);
            if let Some(record) = records.pop() {
                let others: Vec<String> = records.into_iter().map(|other| other.name).collect();
                if record.name != name || !others.is_empty() {
                    let found = [others, vec![record.name]].concat().join(", ");
                    return Err(format!("expected the record of {name}, found {found}"));
                }
                self.begun.clear();
                return Ok(record);
            }
            let left = limit.saturating_sub(start.elapsed());
            let waited = || {
                let came = String::from_utf8_lossy(&self.begun);
                format!("no record of {name} within {} s, only {came:?}", limit.as_secs())
            };
            if left.is_zero() {
                return Err(waited());
            }
            let broken = |error: io::Error| format!("waiting for {name}: {error}");
            self.stream.set_read_timeout(Some(left)).map_err(broken)?;
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(format!("waiting for {name}: QEMU closed the line")),
                Ok(length) => self.begun.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(waited()),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

/// One line that the guest told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    /// When it came in, by this machine's time of day, ns since 1970.
    pub(crate) at_ns: i64,
    /// The line.
    pub(crate) line: String,
}

/// Where the guest tells.
#[derive(Debug)]
pub(crate) struct Telling {
    lines: Receiver<Heard>,
    /// All that was heard so far.
    heard: Vec<Heard>,
}

impl Telling {
    /// Connects; from now on all is heard.
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        let stream = connect(path)?;
        let (sender, lines) = mpsc::channel();
        // Ends with the line, which ends with QEMU; or with the listener.
        thread::spawn(move || listen(stream, |heard| sender.send(heard).is_ok()));
        Ok(Self { lines, heard: Vec::new() })
    }

    /// Listens on to another line.
    pub(crate) fn go_on(&mut self, other: Self) {
        self.heard();
        self.lines = other.lines;
    }

    /// All that was heard until now.
    pub(crate) fn heard(&mut self) -> &[Heard] {
        self.heard.extend(self.lines.try_iter());
        &self.heard
    }

    /// The first line that came in at a moment or after it.
    pub(crate) fn since(&mut self, at_ns: i64) -> usize {
        self.heard().partition_point(|heard| heard.at_ns < at_ns)
    }

    /// Listens on until something is heard, from the given line on; nothing if
    /// the limit comes first or the guest has ended.
    pub(crate) fn until<T>(
        &mut self,
        from: usize,
        limit: Duration,
        mut wanted: impl FnMut(&Heard) -> Option<T>,
    ) -> Option<T> {
        let start = Instant::now();
        let mut looked_at = from;
        loop {
            while let Some(heard) = self.heard.get(looked_at) {
                if let Some(found) = wanted(heard) {
                    return Some(found);
                }
                looked_at += 1;
            }
            match self.lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
                Ok(heard) => self.heard.push(heard),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Stamps each line with the moment at which its end came in.
fn listen(mut stream: impl Read, mut hear: impl FnMut(Heard) -> bool) {
    let mut begun = Vec::new();
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
                begun.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&begun).into_owned();
            begun.clear();
            if !hear(Heard { at_ns, line }) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Commands, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        (Commands { stream, begun: Vec::new() }, theirs)
    }

    #[test]
    fn a_command_is_one_line_and_its_record_comes_back() {
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record date 0 1.00 1.01 4 0\nnow\n\n").unwrap();
        let record = commands.run("date", 5, "date +%s").unwrap();
        assert_eq!((record.stdout.as_str(), record.status), ("now\n", 0));
        let mut asked = [0; 16];
        theirs.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"date 5 date +%s\n");
    }

    #[test]
    fn what_is_not_the_record_is_told() {
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record other 0 1.00 1.01 0 0\n\n").unwrap();
        let said = commands.run("date", 5, "date").unwrap_err();
        assert_eq!(said, "expected the record of date, found other");
        let (mut commands, mut theirs) = pair();
        theirs.write_all(b"@record date 0 1").unwrap();
        let said = commands.record("date", Duration::from_millis(30)).unwrap_err();
        assert_eq!(said, "no record of date within 0 s, only \"@record date 0 1\"");
        drop(theirs);
        let said = commands.record("date", Duration::from_secs(9)).unwrap_err();
        assert_eq!(said, "waiting for date: QEMU closed the line");
    }

    #[test]
    fn lines_are_heard_whole_and_those_waited_for_are_kept() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (sender, lines) = mpsc::channel();
        let before_ns = now_ns();
        theirs.write_all(b"tick 1\ntick ").unwrap();
        theirs.write_all(b"2\ncut").unwrap();
        drop(theirs);
        listen(ours, |heard| sender.send(heard).is_ok());
        drop(sender);
        let mut telling = Telling { lines, heard: Vec::new() };
        let second = telling.until(0, AT_ONCE, |heard| heard.line.strip_prefix("tick 2").map(drop));
        assert_eq!(second, Some(()));
        assert_eq!(telling.until(1, AT_ONCE, |heard| (heard.line == "tick 1").then_some(())), None);
        assert_eq!((telling.since(before_ns), telling.since(i64::MAX)), (0, 2));
        let heard = telling.heard();
        let said: Vec<&str> = heard.iter().map(|heard| heard.line.as_str()).collect();
        assert_eq!(said, ["tick 1", "tick 2"]);
        assert!(heard.iter().all(|heard| (before_ns..=now_ns()).contains(&heard.at_ns)));
    }
}
