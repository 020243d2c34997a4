//! What a program on the machine would write: the time of day as fast as it can be read and
//! written, a line each, to a port of the host's (`deeds/gate/stamps.rs` has the other end).
//!
//! The host sends its time all along, as `T TIME COMPLEMENT`. Each line has the last such time
//! that arrived before the clock was read, so the host knows from outside between which two
//! times of its own the clock was read. A restored snapshot cuts lines in two, in both
//! directions: each carries a check.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::ClockId;

/// A line longer than this is none of the host's.
const LONGEST: usize = 64;

/// Writes a line per interval until the port is closed.
pub(crate) fn write_to(port: BorrowedFd<'_>, interval: Duration) -> io::Result<()> {
    let mut port = File::from(port.try_clone_to_owned()?);
    let mut tokens = Tokens::default();
    let mut number = 0;
    loop {
        while is_readable(&port)? {
            let mut bytes = [0; 4096];
            let length = port.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            tokens.extend(&bytes[..length]);
        }
        number += 1;
        port.write_all(line(number, super::ns(ClockId::Realtime), tokens.last_ns).as_bytes())?;
        sleep(interval);
    }
}

fn is_readable(port: &File) -> io::Result<bool> {
    let mut wanted = [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut wanted, Some(&now))? > 0)
}

fn line(number: u64, stamp_ns: i128, token_ns: u64) -> String {
    let check = number ^ stamp_ns as u64 ^ token_ns;
    format!("S {number} {stamp_ns} {token_ns} {check}\n")
}

/// The host's times, as they arrive.
#[derive(Debug, Default)]
struct Tokens {
    partial: Vec<u8>,
    last_ns: u64,
}

impl Tokens {
    fn extend(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' && self.partial.len() < LONGEST {
                self.partial.push(*byte);
                continue;
            }
            if let Some(ns) = std::str::from_utf8(&self.partial).ok().and_then(token) {
                self.last_ns = ns;
            }
            self.partial.clear();
        }
    }
}

/// `T 1795812345000000000 16650931728709551615`: a time, and its complement.
fn token(line: &str) -> Option<u64> {
    let (ns, complement) = line.strip_prefix("T ")?.split_once(' ')?;
    let (ns, complement) = (ns.parse::<u64>().ok()?, complement.parse::<u64>().ok()?);
    (ns == !complement).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_a_restore_cut_is_none() {
        let whole = |ns: u64| format!("T {ns} {}\n", !ns);
        let mut tokens = Tokens::default();
        tokens.extend(whole(5_000).as_bytes());
        assert_eq!(tokens.last_ns, 5_000);
        // The end of another one follows the first half.
        tokens.extend(&whole(6_000).as_bytes()[..5]);
        tokens.extend(&whole(7_000).as_bytes()[4..]);
        assert_eq!(tokens.last_ns, 5_000);
        tokens.extend(whole(8_000).as_bytes());
        assert_eq!(tokens.last_ns, 8_000);
        tokens.extend(&[b'9'; 3 * LONGEST]);
        assert!(tokens.partial.len() <= LONGEST);
    }

    #[test]
    fn a_line_has_its_number_the_clock_the_hosts_time_and_a_check() {
        assert_eq!(line(3, 4, 8), "S 3 4 8 15\n");
    }
}
