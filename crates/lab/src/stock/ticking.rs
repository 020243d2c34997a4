//! Clocks and timers of a kernel that goes on: inside a line of JSON each time that a
//! timer fires, outside those lines among whatever else the serial port has.

use std::io::{self, Write as _};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use linux::clock::LinuxClock;
use linux::scheduling::sleep_until;
use pvclock::counter::{Counter as _, Tsc};
use serde::{Deserialize, Serialize};

/// A line begins with this.
const MARK: &str = "parachron-tick-1 ";
/// What is read, and by which of them timers are set.
const CLOCKS: [LinuxClock; 4] =
    [LinuxClock::Monotonic, LinuxClock::Boottime, LinuxClock::Realtime, LinuxClock::MonotonicRaw];
pub(super) const TIMERS: [LinuxClock; 3] =
    [LinuxClock::Monotonic, LinuxClock::Boottime, LinuxClock::Realtime];
/// Of each timer.
const PERIOD_NS: u64 = 600_000_000;
/// How often the time of day is looked at, and what was a step of it.
const LOOK: Duration = Duration::from_millis(10);
const STEP_NS: i128 = 1_000_000;
/// Tries of a reading, of which the shortest counts.
const TRIES: u32 = 20;

/// A line: of timers that fired, or of none where the time of day was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) stamps: Vec<Stamp>,
    pub(super) fired: Vec<FiredTimer>,
}

/// A clock read between two readings of the TSC of vCPU 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) clock: String,
    pub(super) tsc: (u64, u64),
    pub(super) ns: u64,
}

/// A timer that fired, by its own clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FiredTimer {
    pub(super) clock: String,
    pub(super) due_ns: u64,
    pub(super) at_ns: u64,
}

/// Writes lines until the machine ends.
pub(super) fn run() -> io::Result<()> {
    let (sender, fired) = channel();
    for (number, clock) in (0..).zip(TIMERS) {
        let sender = sender.clone();
        thread::spawn(move || fire(clock, number * PERIOD_NS / 3, &sender));
    }
    thread::spawn(move || watch_steps(&sender));
    while let Ok(first) = fired.recv() {
        let fired = std::iter::once(first).chain(fired.try_iter()).flatten().collect();
        let line = serde_json::to_string(&Tick { stamps: stamps(), fired })?;
        let mut console = io::stdout().lock();
        console.write_all(format!("\n{MARK}{line}\n").as_bytes())?;
        console.flush()?;
    }
    Ok(())
}

/// A periodic timer; periods that it missed are left out.
fn fire(clock: LinuxClock, phase_ns: u64, sender: &Sender<Option<FiredTimer>>) -> Option<()> {
    let mut at_ns = clock.read_ns()?;
    loop {
        let due_ns = (at_ns / PERIOD_NS + 1) * PERIOD_NS + phase_ns;
        sleep_until(clock, due_ns).ok()?;
        at_ns = clock.read_ns()?;
        let clock = clock.name().to_owned();
        sender.send(Some(FiredTimer { clock, due_ns, at_ns })).ok()?;
    }
}

fn watch_steps(sender: &Sender<Option<FiredTimer>>) -> Option<()> {
    let ahead_ns = || {
        let real_ns = i128::from(LinuxClock::Realtime.read_ns()?);
        Some(real_ns - i128::from(LinuxClock::Monotonic.read_ns()?))
    };
    let mut last_ns = ahead_ns()?;
    loop {
        thread::sleep(LOOK);
        let now_ns = ahead_ns()?;
        if (now_ns - last_ns).abs() > STEP_NS {
            sender.send(None).ok()?;
        }
        last_ns = now_ns;
    }
}

fn stamps() -> Vec<Stamp> {
    let _pinned = linux::cpus::pin(0);
    let once = |clock: LinuxClock| {
        let before = Tsc.read_ordered();
        let ns = clock.read_ns().unwrap_or(0);
        Stamp { clock: clock.name().to_owned(), tsc: (before, Tsc.read_ordered()), ns }
    };
    CLOCKS.map(|clock| tightest(TRIES, || once(clock), |stamp| stamp.tsc)).into()
}

/// The whole lines of the serial port; one that a word of the kernel's or the save has
/// cut is left out.
pub(super) fn find(serial: &str) -> Vec<Tick> {
    let lines = serial.split(MARK).skip(1).filter_map(|line| line.split_once('\n'));
    lines.filter_map(|(line, _)| serde_json::from_str(line.trim_end()).ok()).collect()
}

/// The tightest of so many readings.
pub(super) fn tightest<T>(tries: u32, once: impl Fn() -> T, tsc: impl Fn(&T) -> (u64, u64)) -> T {
    let width = |reading: &T| tsc(reading).1.wrapping_sub(tsc(reading).0);
    (1..tries).fold(once(), |best, _| {
        let next = once();
        if width(&next) < width(&best) { next } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_of_three_readings_is_taken() {
        let widths = std::cell::RefCell::new(vec![7, 3, 9]);
        let once = || widths.borrow_mut().pop().unwrap();
        assert_eq!(tightest(3, once, |width| (5, 5 + width)), 3);
    }

    #[test]
    fn whole_lines_are_found_and_others_left_out() {
        let tick = Tick {
            stamps: stamps(),
            fired: vec![FiredTimer { clock: "CLOCK_MONOTONIC".to_owned(), due_ns: 5, at_ns: 7 }],
        };
        assert_eq!(tick.stamps.len(), 4);
        let line = format!("\n{MARK}{}\r\n", serde_json::to_string(&tick).unwrap());
        let cut = &line[..line.len() / 2];
        let serial =
            format!("{}[ 1.0] words\r\n{line}{cut}[ 2.0] words\r\n{line}{cut}", &line[9..]);
        assert_eq!(find(&serial), [tick.clone(), tick]);
    }
}
