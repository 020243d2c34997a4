//! What a stock kernel reports, as lines of JSON on the serial port among whatever else it
//! prints there: once how it booted, then its clocks each time that a timer fires.

use std::io::{self, Write as _};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use linux::clock::LinuxClock;
use linux::scheduling::sleep_until;
use pvclock::counter::{Counter as _, Tsc};
use pvclock::units::Bracket;
use serde::{Deserialize, Serialize};

/// A line begins with this.
const MARK: &str = "stock-linux-1 ";
/// What is read, and by which of them timers are set.
const CLOCKS: [LinuxClock; 4] =
    [LinuxClock::Monotonic, LinuxClock::Boottime, LinuxClock::Realtime, LinuxClock::MonotonicRaw];
pub(crate) const TIMERS: [LinuxClock; 3] =
    [LinuxClock::Monotonic, LinuxClock::Boottime, LinuxClock::Realtime];
/// Of each timer.
const PERIOD_NS: u64 = 600_000_000;
/// How often the time of day is looked at, and what was a step of it.
const LOOK: Duration = Duration::from_millis(10);
const STEP_NS: i128 = 1_000_000;
/// Tries of a reading, of which the shortest counts.
const TRIES: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    Booted(Booted),
    Tick(Tick),
}

/// How it booted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Booted {
    /// `uname -r`.
    pub(crate) release: String,
    /// CPUs online.
    pub(crate) cpus: usize,
    pub(crate) clocksource: String,
    /// Lines of the kernel's log about clocks.
    pub(crate) log: Vec<String>,
    /// Whether another kernel booted this one by kexec.
    pub(crate) again: bool,
}

/// Of timers that fired, or of none where the time of day was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) fired: Vec<FiredTimer>,
}

/// A clock read between two readings of the TSC of vCPU 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) clock: String,
    pub(crate) tsc: (u64, u64),
    pub(crate) ns: u64,
}

/// A timer that fired, by its own clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FiredTimer {
    pub(crate) clock: String,
    pub(crate) due_ns: u64,
    pub(crate) at_ns: u64,
}

/// Writes a line to the console.
pub(crate) fn write(line: &Line) -> io::Result<()> {
    let line = serde_json::to_string(line)?;
    let mut console = io::stdout().lock();
    console.write_all(format!("\n{MARK}{line}\n").as_bytes())?;
    console.flush()
}

/// The whole lines of the serial port; one that a word of the kernel's or a save has cut is left
/// out.
pub(crate) fn find(serial: &str) -> Vec<Line> {
    let lines = serial.split(MARK).skip(1).filter_map(|line| line.split_once('\n'));
    lines.filter_map(|(line, _)| serde_json::from_str(line.trim_end()).ok()).collect()
}

/// Writes ticks until the machine ends.
pub(crate) fn write_ticks() -> io::Result<()> {
    let (sender, fired) = channel();
    for (number, clock) in (0..).zip(TIMERS) {
        let sender = sender.clone();
        thread::spawn(move || fire(clock, number * PERIOD_NS / 3, &sender));
    }
    thread::spawn(move || watch_steps(&sender));
    while let Ok(first) = fired.recv() {
        let fired = std::iter::once(first).chain(fired.try_iter()).flatten().collect();
        write(&Line::Tick(Tick { stamps: stamps(), fired }))?;
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

/// Each clock by the tightest of some readings.
fn stamps() -> Vec<Stamp> {
    let _pinned = linux::cpus::pin(0);
    let tightest = |clock: LinuxClock| {
        let bracket = Bracket::tightest(TRIES, 0, || {
            let before = Tsc.read_ordered();
            let inner = clock.read_ns()?;
            Some(Bracket { before, inner, after: Tsc.read_ordered() })
        })?;
        let tsc = (bracket.before, bracket.after);
        Some(Stamp { clock: clock.name().to_owned(), tsc, ns: bracket.inner })
    };
    CLOCKS.into_iter().filter_map(tightest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_found_and_others_left_out() {
        let fired = FiredTimer { clock: "CLOCK_MONOTONIC".to_owned(), due_ns: 5, at_ns: 7 };
        let tick = Line::Tick(Tick { stamps: stamps(), fired: vec![fired] });
        let line = format!("\n{MARK}{}\r\n", serde_json::to_string(&tick).unwrap());
        let cut = &line[..line.len() / 2];
        let serial =
            format!("{}[ 1.0] words\r\n{line}{cut}[ 2.0] words\r\n{line}{cut}", &line[9..]);
        assert_eq!(find(&serial), [tick.clone(), tick]);
    }
}
