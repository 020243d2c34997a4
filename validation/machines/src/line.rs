//! The line to a machine: its console, over which commands go in and their
//! records come out, between what its kernel prints. All of it is kept in a
//! log.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::records::{self, Record};
use crate::wire::{CLOSED, Wire};

/// Wall-clock time beyond a command's limit in the guest until it has failed:
/// the guest is slow while the machine is busy.
const GRACE: Duration = Duration::from_secs(30);

/// What a kernel prints when it gives up (Linux: kernel/panic.c).
const PANIC: &[u8] = b"Kernel panic - not syncing";

/// Bytes of the log that a failure shows, at most.
const TAIL: usize = 3000;

/// What a machine answers to a command that did not arrive whole.
const AGAIN: &str = "again";

/// Asks for the last record again: a part of it did not arrive.
const RESEND: &str = "\n0 6 resend\n";

/// A record that has begun and comes no further for so long lacks a part.
const SILENCE: Duration = Duration::from_secs(5);

/// How often a command is sent, or its record asked for, at most.
const SENT: u32 = 5;

/// The next command's. A machine that was migrated has a new line, and knows
/// the numbers of the old one.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// The line, and all that came over it. A command goes in as `NUMBER LENGTH
/// NAME LIMIT_S COMMAND`: a serial port that was just restored loses bytes, the
/// machine sees so by the length, and by the number what it has run already.
#[derive(Debug)]
pub(crate) struct Line {
    wire: Wire,
    log: File,
    /// The end of the log.
    tail: Vec<u8>,
    /// The last command, and how often it was sent.
    sent: (u32, String, u32),
    /// How long a record may rest.
    silence: Duration,
}

impl Line {
    /// Over a stream; what comes is also written to a file.
    pub(crate) fn over(stream: UnixStream, log: &Path) -> Result<Self, String> {
        let log = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        Ok(Self {
            wire: stream.into(),
            log,
            tail: Vec::new(),
            sent: (0, String::new(), 0),
            silence: SILENCE,
        })
    }

    /// Waits until the machine accepts commands.
    pub(crate) fn ready(&mut self, boot: Duration) -> Result<Record, String> {
        self.record("ready", boot)
    }

    /// Runs a command, which is one line, and returns its record.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        self.send(name, limit_s, line)?;
        self.record(name, Duration::from_secs(limit_s.into()) + GRACE)
    }

    /// Starts a command, whose record is read later.
    pub(crate) fn send(&mut self, name: &str, limit_s: u32, line: &str) -> Result<(), String> {
        let command = format!("{name} {limit_s} {}", line.trim());
        self.sent = (NUMBER.fetch_add(1, Ordering::Relaxed), command, 0);
        self.send_it()
    }

    /// Sends the last command, behind the end of whatever is left of another.
    fn send_it(&mut self) -> Result<(), String> {
        let (number, command, times) = &mut self.sent;
        *times += 1;
        let name = command.split(' ').next().unwrap_or_default();
        let all = format!("\n{number} {} {command}\n", command.chars().count());
        self.wire.send(name, all)
    }

    /// The next record, which must have this name.
    pub(crate) fn record(&mut self, name: &str, limit: Duration) -> Result<Record, String> {
        let start = Instant::now();
        let mut asked = 0;
        loop {
            if let Some((record, end)) = records::first(&self.wire.received) {
                self.wire.received.drain(..end);
                if record.is_damaged && asked < SENT {
                    asked += 1;
                    self.wire.send(name, RESEND)?;
                    continue;
                }
                if record.name == name {
                    return Ok(record);
                }
                if record.name == AGAIN && self.sent.2 < SENT {
                    self.send_it()?;
                    continue;
                }
                return Err(format!("expected the record of {name}, found {}", record.name));
            }
            if self.tail.windows(PANIC.len()).any(|window| window == PANIC) {
                return Err("the kernel panicked".to_owned());
            }
            let has_begun = records::has_begun(&self.wire.received);
            let (from, wait) =
                if has_begun { (Instant::now(), self.silence) } else { (start, limit) };
            let received = self.receive(name, from, wait);
            let is_silent = received.as_ref().is_err_and(|why| !why.contains(CLOSED));
            if has_begun && is_silent && asked < SENT {
                asked += 1;
                self.wire.received.clear();
                self.wire.send(name, RESEND)?;
                continue;
            }
            received.map_err(|why| why.split(", only").next().unwrap_or_default().to_owned())?;
        }
    }

    /// All that comes until the machine ends.
    pub(crate) fn until_end(&mut self, limit: Duration) -> Result<Vec<u8>, String> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if self.receive("end", start, limit).is_err_and(|why| why.contains(CLOSED)) {
                return Ok(std::mem::take(&mut self.wire.received));
            }
        }
        Err(format!("it did not end within {} s", limit.as_secs()))
    }

    /// Receives more, and logs it.
    fn receive(&mut self, awaited: &str, start: Instant, limit: Duration) -> Result<(), String> {
        let had = self.wire.received.len();
        let received = self.wire.receive(awaited, start, limit);
        let new = &self.wire.received[had..];
        // A log that cannot be written fails no machine.
        let _ = self.log.write_all(new);
        self.tail.extend_from_slice(new);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
        received
    }

    /// Closes it: the guard ends the machine.
    pub(crate) fn close(&self) {
        self.wire.close();
    }

    /// The end of what came, for a failure's report.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Line, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        (Line::over(stream, Path::new("/dev/null")).unwrap(), theirs)
    }

    #[test]
    fn a_record_is_found_between_what_the_kernel_prints() {
        let (mut line, mut theirs) = pair();
        theirs.write_all(b"[ 0.1] hello\r\n").unwrap();
        theirs.write_all(&records::sent("date 0 1.00 1.01", "now\n", "")).unwrap();
        theirs.write_all(b"[ 2] x").unwrap();
        let record = line.run("date", 5, "date +%s").unwrap();
        assert_eq!((record.stdout.as_str(), record.status), ("now\n", 0));
    }

    #[test]
    fn a_command_that_did_not_arrive_is_sent_again() {
        let (mut line, mut theirs) = pair();
        theirs.write_all(&records::sent("again 0 1.00 1.01", "", "")).unwrap();
        theirs.write_all(&records::sent("date 0 1.00 1.01", "now\n", "")).unwrap();
        assert_eq!(line.run("date", 5, " date +%s").unwrap().stdout, "now\n");
        line.close();
        let mut sent = String::new();
        std::io::Read::read_to_string(&mut theirs, &mut sent).unwrap();
        let (twice, number) = (sent.len() / 2, line.sent.0);
        assert_eq!(sent[..twice], format!("\n{number} 15 date 5 date +%s\n"));
        assert_eq!(sent[..twice], sent[twice..]);
    }

    #[test]
    fn a_record_that_lost_a_byte_is_asked_for_again() {
        let whole = records::sent("date 0 1.00 1.01", "now\n", "");
        let changed = |at: usize| [&whole[..at], &[whole[at] ^ 1], &whole[at + 1..]].concat();
        let cut = |at: usize| [&whole[..at], &whole[at + 1..]].concat();
        for damaged in [changed(whole.len() - 6), cut(whole.len() - 6)] {
            let (mut line, mut theirs) = pair();
            line.silence = Duration::from_millis(50);
            theirs.write_all(&damaged).unwrap();
            let guest = std::thread::spawn(move || {
                let mut asked = [0; RESEND.len()];
                std::io::Read::read_exact(&mut theirs, &mut asked).unwrap();
                theirs.write_all(&records::sent("date 0 1.00 1.01", "now\n", "")).unwrap();
                (String::from_utf8_lossy(&asked).into_owned(), theirs)
            });
            assert_eq!(line.record("date", GRACE).unwrap().stdout, "now\n");
            assert_eq!(guest.join().unwrap().0, RESEND);
        }
    }

    #[test]
    fn a_panic_an_end_and_silence_are_errors() {
        let (mut line, mut theirs) = pair();
        let why = line.record("date", Duration::from_millis(30)).unwrap_err();
        assert_eq!(why, "no date within 0.03 s");
        theirs.write_all(b"[ 1] Kernel panic - not syncing: no init\r\n").unwrap();
        assert_eq!(line.record("date", GRACE).unwrap_err(), "the kernel panicked");
        assert!(String::from_utf8_lossy(line.tail()).contains("no init"));
        let (mut line, theirs) = pair();
        drop(theirs);
        let why = line.record("date", GRACE).unwrap_err();
        assert_eq!(why, "waiting for date: QEMU closed the connection");
    }
}
