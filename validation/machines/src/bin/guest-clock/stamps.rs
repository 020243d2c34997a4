//! What a program on the machine would write: the time of day as fast as it can be read and
//! written, a line each, to a port of the host's (`deeds/gate/stamps.rs` has the other end).
//!
//! The host sends its time all along, as `T TIME COMPLEMENT`. Each line has the last such time
//! that arrived before the clock was read, so the host knows from outside between which two
//! times of its own the clock was read. A restored snapshot cuts lines in two, in both
//! directions: each carries a check.
//!
//! A line also has the error bound that the daemon publishes for ClockBound's clients, as one
//! reads it that asks for the time now: the segment, then the clock, then the VMClock's marker.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use linux::clock::LinuxClock;
use linux::clockbound::MappedSegment;
use linux::vmclock::VmClockDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::ClockId;

/// A line longer than this is none of the host's.
const LONGEST: usize = 64;

/// Where the daemon publishes its bound.
const SEGMENT: &str = "/var/run/clockbound/shm0";

/// Writes a line per interval until the port is closed.
pub(crate) fn write_to(port: BorrowedFd<'_>, interval: Duration) -> io::Result<()> {
    let mut port = File::from(port.try_clone_to_owned()?);
    let mut tokens = Tokens::default();
    let mut number = 0;
    let mut published = Published::default();
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
        let (stamp_ns, bound) = published.read(|| super::ns(ClockId::Realtime));
        port.write_all(line(number, stamp_ns, tokens.last_ns, bound).as_bytes())?;
        sleep(interval);
    }
}

fn is_readable(port: &File) -> io::Result<bool> {
    let mut wanted = [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut wanted, Some(&now))? > 0)
}

/// The bound beside a stamp.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Bound {
    /// The segment's, ns; 0 without one.
    ns: u64,
    /// Whether its disruption marker is that of the VMClock page.
    is_current: bool,
}

/// The segment and the VMClock page, once there are any.
#[derive(Debug, Default)]
struct Published {
    segment: Option<MappedSegment>,
    vmclock: Option<VmClockDevice>,
}

impl Published {
    /// Reads a clock between the segment and the marker: after a restore in between the marker
    /// is another.
    fn read(&mut self, clock: impl FnOnce() -> i128) -> (i128, Bound) {
        if self.segment.is_none() {
            self.segment = MappedSegment::open(Path::new(SEGMENT)).ok();
        }
        if self.vmclock.is_none() {
            self.vmclock = VmClockDevice::open(Path::new(VmClockDevice::PATH)).ok();
        }
        let published = self.segment.as_ref().and_then(MappedSegment::read);
        let now_ns = LinuxClock::MonotonicCoarse.read_ns();
        let stamp_ns = clock();
        let marker = self.vmclock.as_ref().and_then(|page| page.read().ok());
        let marker = marker.map(|page| page.disruption_marker);
        let Some((_, bound)) = published else { return (stamp_ns, Bound::default()) };
        let ns = now_ns.and_then(|now_ns| bound.error_ns(now_ns)).unwrap_or(0);
        let is_current = marker.is_some() && marker == bound.disruption_marker;
        (stamp_ns, Bound { ns, is_current })
    }
}

fn line(number: u64, stamp_ns: i128, token_ns: u64, bound: Bound) -> String {
    let is_current = u64::from(bound.is_current);
    let check = number ^ stamp_ns as u64 ^ token_ns ^ bound.ns ^ is_current;
    format!("S {number} {stamp_ns} {token_ns} {} {is_current} {check}\n", bound.ns)
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
    fn a_line_has_its_number_the_clock_the_hosts_time_the_bound_and_a_check() {
        assert_eq!(line(3, 4, 8, Bound::default()), "S 3 4 8 0 0 15\n");
        assert_eq!(line(3, 4, 8, Bound { ns: 16, is_current: true }), "S 3 4 8 16 1 30\n");
    }

    #[test]
    fn the_clock_is_read_without_a_segment_as_well() {
        let mut published = Published::default();
        assert_eq!(published.read(|| 7).0, 7);
    }
}
