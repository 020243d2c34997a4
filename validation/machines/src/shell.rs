//! A shell of what a machine runs on: a host with KVM, or Xen's control domain. It reads
//! its port as standard input, and what it runs answers there (`base/kvm.sh`, `base/domu.sh`).

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Result;
use crate::wire::{Wire, connect};

/// Its socket in the row's folder.
const SOCKET: &str = "shell";

/// What a serial port takes before its reader runs is 16 bytes (16550A).
const PIECE: usize = 8;
const BETWEEN_PIECES: Duration = Duration::from_millis(5);

/// Begins the line that ends an answer.
const ENDED: &str = "ended";

/// A connection to it.
#[derive(Debug)]
pub(crate) struct Shell {
    wire: Wire,
    /// Of the last line that was run.
    number: u32,
}

impl Shell {
    /// The shell below a row's machine, which is up.
    pub(crate) fn connect(folder: &Path) -> Result<Self> {
        Ok(Self { wire: connect(&folder.join(SOCKET))?.into(), number: 0 })
    }

    /// Runs a line that must succeed, and returns what it printed.
    pub(crate) fn execute(&mut self, line: &str, limit: Duration) -> Result<String> {
        self.number += 1;
        let number = self.number;
        // The first sign ends what another line may have left behind.
        let all =
            format!("\n({line}) >&0 2>&0 </dev/null; printf '\\n{ENDED} {number} %d\\n' $? >&0\n");
        for piece in all.as_bytes().chunks(PIECE) {
            self.wire.send(SOCKET, piece)?;
            thread::sleep(BETWEEN_PIECES);
        }
        let start = Instant::now();
        loop {
            if let Some((printed, status, end)) = answer(&self.wire.received, number) {
                self.wire.received.drain(..end);
                return match status {
                    0 => Ok(printed),
                    status => Err(format!("{line}: exit code {status}: {printed}")),
                };
            }
            let received = self.wire.receive("the shell's answer", start, limit);
            received.map_err(|why| format!("{line}: {why}"))?;
        }
    }
}

/// What a line printed, its exit code, and where the answer ends; none before that.
fn answer(received: &[u8], number: u32) -> Option<(String, i32, usize)> {
    let text = String::from_utf8_lossy(received);
    let begin = format!("\n{ENDED} {number} ");
    let (printed, rest) = text.split_once(&begin)?;
    let (status, _) = rest.split_once('\n')?;
    // By the bytes: what is no text became longer.
    let at = received.windows(begin.len()).position(|window| window == begin.as_bytes())?;
    let end = at + begin.len() + status.len() + 1;
    Some((printed.trim().to_owned(), status.trim().parse().ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_exit_code() {
        let all = b"17 2000\n\nended 3 0\nmore";
        let (printed, status, end) = answer(all, 3).unwrap();
        assert_eq!((printed.as_str(), status, &all[end..]), ("17 2000", 0, &b"more"[..]));
        assert_eq!(answer(b"\nended 3 127\n", 3).unwrap().1, 127);
        assert_eq!(answer(&all[..16], 3), None, "the end is missing");
        assert_eq!(answer(all, 4), None, "of an earlier line");
        assert_eq!(answer(b"\xff\n\nended 3 1\n", 3).unwrap().2, 13);
    }

    #[test]
    fn a_line_that_fails_is_an_error_with_what_it_said() {
        use std::io::{Read as _, Write as _};
        use std::os::unix::net::UnixListener;

        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let mut shell = Shell::connect(folder.path()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.write_all(b"xl: no such domain\n\nended 1 1\n").unwrap();
        let why = shell.execute("xl pause x", Duration::from_secs(5)).unwrap_err();
        assert_eq!(why, "xl pause x: exit code 1: xl: no such domain");
        drop(shell);
        let mut sent = String::new();
        theirs.read_to_string(&mut sent).unwrap();
        assert!(sent.starts_with("\n(xl pause x) >&0 2>&0 </dev/null; printf "), "{sent}");
    }
}
