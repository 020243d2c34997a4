//! A machine's clocks as it prints them to a port, each reading with this system's time of day on
//! receipt: `guest-clock print` (`validation/machines/src/bin/guest-clock`).

use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::SystemTime;

use crate::outcome::Result;
use crate::wire::connect;

/// The last ticks, of which at least one came without delay.
const LAST_TICKS: usize = 50;

/// This machine's time of day, ns since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// All clocks at one moment: REALTIME, MONOTONIC, BOOTTIME and MONOTONIC_RAW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    /// When it was received, by this machine's time of day, ns since 1970.
    pub(crate) at_ns: i64,
    /// Each clock, ns.
    pub(crate) clocks_ns: [i64; 4],
}

impl Tick {
    /// The tick on a line, if it has one.
    pub(crate) fn parse(line: &str, at_ns: i64) -> Option<Self> {
        let mut words = line.strip_prefix("tick ")?.split(' ').map(str::parse);
        let mut clocks_ns = [0; 4];
        for clock_ns in &mut clocks_ns {
            *clock_ns = words.next()?.ok()?;
        }
        words.next().is_none().then_some(Self { at_ns, clocks_ns })
    }
}

/// How far the time of day is ahead of this machine's, s, by the tick with the smallest delay.
pub(crate) fn ahead_s(ticks: &[Tick]) -> Option<f64> {
    ticks.iter().map(|tick| tick.clocks_ns[0] - tick.at_ns).max().map(seconds)
}

/// The same at the end; no number without ticks.
pub(crate) fn left_s(ticks: &[Tick]) -> f64 {
    ahead_s(&ticks[ticks.len().saturating_sub(LAST_TICKS)..]).unwrap_or(f64::NAN)
}

/// The ticks that come from a port.
#[derive(Debug)]
pub(crate) struct Ticks {
    receiver: Receiver<Tick>,
    all: Vec<Tick>,
}

impl Ticks {
    /// Connects; every tick from now on is received.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let stream = connect(path)?;
        let (sender, receiver) = mpsc::channel();
        let receive = move |line: &str, at_ns| {
            Tick::parse(line, at_ns).is_none_or(|tick| sender.send(tick).is_ok())
        };
        // Ends with the connection, which ends with QEMU, or with the receiver.
        thread::spawn(move || read_lines(stream, receive));
        Ok(Self { receiver, all: Vec::new() })
    }

    /// All ticks from a moment on.
    pub(crate) fn since(&mut self, from_ns: i64) -> Result<Vec<Tick>> {
        self.all.extend(self.receiver.try_iter());
        let ticks: Vec<Tick> =
            self.all.iter().filter(|tick| tick.at_ns >= from_ns).copied().collect();
        if ticks.is_empty() { Err("the machine printed no time".to_owned()) } else { Ok(ticks) }
    }
}

/// Stamps each line with the moment at which its end was received, until it is not wanted.
pub(crate) fn read_lines(mut from: impl Read, mut receive: impl FnMut(&str, i64) -> bool) {
    let (mut partial, mut bytes) = (Vec::new(), [0; 65_536]);
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let at_ns = now_ns();
        for &byte in &bytes[..length] {
            if byte != b'\n' {
                partial.push(byte);
                continue;
            }
            if !receive(&String::from_utf8_lossy(&partial), at_ns) {
                return;
            }
            partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn tick(at_ms: i64, realtime_ms: i64) -> Tick {
        let ns = |ms: i64| ms * 1_000_000;
        Tick { at_ns: ns(at_ms), clocks_ns: [ns(realtime_ms), 0, 0, ns(at_ms - 1)] }
    }

    #[test]
    fn a_line_is_a_tick_or_not() {
        let expected = Tick { at_ns: 9, clocks_ns: [1, 2, 3, -4] };
        assert_eq!(Tick::parse("tick 1 2 3 -4", 9), Some(expected));
        for text in ["tick 1 2 3", "tick 1 2 3 4 5", "tick 1 2 3 x", "{}", ""] {
            assert_eq!(Tick::parse(text, 9), None, "{text}");
        }
    }

    #[test]
    fn the_tick_with_the_smallest_delay_gives_the_offset() {
        assert_eq!(ahead_s(&[tick(10, 8), tick(20, 19), tick(30, 23)]), Some(-0.001));
        assert_eq!(ahead_s(&[]), None);
    }

    #[test]
    fn lines_are_complete_and_stamped() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let before_ns = now_ns();
        theirs.write_all(b"tick 1\ntick ").unwrap();
        theirs.write_all(b"2\ncut").unwrap();
        drop(theirs);
        let mut lines = Vec::new();
        read_lines(ours, |line, at_ns| {
            assert!((before_ns..=now_ns()).contains(&at_ns));
            lines.push(line.to_owned());
            true
        });
        assert_eq!(lines, ["tick 1", "tick 2"]);
    }
}
