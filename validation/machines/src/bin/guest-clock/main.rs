//! Prints and changes the clock of a disposable guest, reads it beside the TSC,
//! sees whether two CPUs' TSCs are in order, and
//! writes time stamps as a program on the machine would:
//! `cargo xtask machines` runs this program in its guests. It changes a clock only if the
//! kernel's command line marks the machine as disposable.

mod stamps;

use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use std::{env, fs};

use clock_steering::unix::{Error, UnixClock};
use clock_steering::{Clock, LeapIndicator, TimeOffset};
use linux::kernel_line::KernelLineReader;
use linux::vmclock::VmClockDevice;
use pvclock::counter::{Counter as _, CpuCounter};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// A parameter on the command line of a kernel whose clock may be set.
const DISPOSABLE: &str = "parachron.disposable";

const USAGE: &str = "usage: print INTERVAL_MS | stamps INTERVAL_US | tsc | \
    tsc-pairs COUNT INTERVAL_MS | line COUNT INTERVAL_MS | tsc-order | step SECONDS | frequency PPM | \
    leap insert|delete|none";

/// The clocks printed, in the order of a line.
const CLOCKS: [ClockId; 4] =
    [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime, ClockId::MonotonicRaw];

/// How often a reading between two others is tried; the closest counts.
const TRIES: u32 = 20;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("guest-clock: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let whole = |word: &str| word.parse().map_err(|error| format!("{error}; {USAGE}"));
    match *words {
        ["print", interval_ms] => {
            print(Duration::from_millis(whole(interval_ms)?)).map_err(|error| error.to_string())
        }
        ["stamps", interval_us] => {
            let interval = Duration::from_micros(whole(interval_us)?);
            stamps::write_to(io::stdin().as_fd(), interval).map_err(|error| error.to_string())
        }
        ["tsc"] => {
            println!("{}", CpuCounter.read_ordered());
            Ok(())
        }
        [what @ ("tsc-pairs" | "line"), count, interval_ms] => {
            let (count, interval) = (whole(count)?, Duration::from_millis(whole(interval_ms)?));
            let print = if what == "line" { line } else { tsc_pairs };
            print(count, interval).map_err(|error| error.to_string())
        }
        ["tsc-order"] => {
            println!("{}", tsc_order([0, 1], Duration::from_secs(1)));
            Ok(())
        }
        ["step", seconds] => {
            let by = offset(number(seconds)?);
            change(|clock| clock.step_clock(by).map(drop))
        }
        ["frequency", ppm] => {
            let ppm = number(ppm)?;
            change(|clock| clock.set_frequency(ppm).map(drop))
        }
        ["leap", "insert"] => change(|clock| clock.set_leap_seconds(LeapIndicator::Leap61)),
        ["leap", "delete"] => change(|clock| clock.set_leap_seconds(LeapIndicator::Leap59)),
        ["leap", "none"] => change(|clock| clock.set_leap_seconds(LeapIndicator::NoWarning)),
        _ => Err(USAGE.to_owned()),
    }
}

fn number(word: &str) -> Result<f64, String> {
    let number = word.parse().map_err(|error| format!("{word}: {error}; {USAGE}"))?;
    if f64::is_finite(number) { Ok(number) } else { Err(format!("{word} is not finite")) }
}

/// One line per interval, `tick` and the clocks in ns, each in a single write:
/// the output of other programs on the same terminal stays separate.
fn print(interval: Duration) -> io::Result<()> {
    let mut out = io::stdout().lock();
    loop {
        let [realtime, monotonic, boottime, raw] = CLOCKS.map(ns);
        out.write_all(format!("tick {realtime} {monotonic} {boottime} {raw}\n").as_bytes())?;
        out.flush()?;
        sleep(interval);
    }
}

fn ns(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// One line per interval: CLOCK_MONOTONIC_RAW, which nobody steers, in ns, the TSC, and the clock
/// after it.
fn tsc_pairs(count: u64, interval: Duration) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for number in 0..count {
        if number > 0 {
            sleep(interval);
        }
        let (before, count, after) =
            closest(|| ns(ClockId::MonotonicRaw), || CpuCounter.read_ordered());
        writeln!(out, "{before} {count} {after}")?;
    }
    out.flush()
}

/// One line per interval: how far the kernel's line is ahead of the VMClock page's, ns, and by how
/// much the interval was longer, ms.
fn line(count: u64, interval: Duration) -> io::Result<()> {
    let (reader, page) =
        (KernelLineReader::open()?, VmClockDevice::open(VmClockDevice::PATH.as_ref())?);
    let mut out = io::stdout().lock();
    for _ in 0..count {
        let begun = Instant::now();
        sleep(interval);
        let late = begun.elapsed().saturating_sub(interval);
        let (page, line) = (page.read()?, reader.read().map_err(io::Error::other)?);
        let count = CpuCounter.read_ordered();
        let ahead_ns = line.ahead_ns(page, count).map_err(io::Error::other)?;
        writeln!(out, "{ahead_ns:.2} {:.1}", late.as_secs_f64() * 1e3)?;
    }
    out.flush()
}

/// A counter between two readings of a clock that are as close as may be.
fn closest(clock: impl Fn() -> i128, counter: impl Fn() -> u64) -> (i128, u64, i128) {
    let once = || (clock(), counter(), clock());
    let tries = (0..TRIES).map(|_| once());
    tries.min_by_key(|(before, _, after)| after - before).unwrap_or_else(once)
}

/// By how many cycles a reading of the TSC is at most behind one that was made
/// before it on the other CPU: both read in turns for a while. Written apart from
/// what it is a witness of (`crates/inspect/src/measure/cross_cpu.rs`).
fn tsc_order(cpus: [usize; 2], how_long: Duration) -> u64 {
    let latest = AtomicU64::new(0);
    let start = Instant::now();
    let read = |cpu: usize| {
        let mut only = CpuSet::new();
        only.set(cpu);
        let mut behind = 0;
        // Not moved there: no witness.
        if sched_setaffinity(None, &only).is_err() {
            return behind;
        }
        while start.elapsed() < how_long {
            for _ in 0..1000 {
                let before = latest.load(Ordering::SeqCst);
                let now = CpuCounter.read_ordered();
                behind = behind.max(before.saturating_sub(now));
                latest.fetch_max(now, Ordering::SeqCst);
            }
        }
        behind
    };
    thread::scope(|scope| {
        let both = cpus.map(|cpu| scope.spawn(move || read(cpu)));
        both.into_iter().filter_map(|one| one.join().ok()).max().unwrap_or(0)
    })
}

/// The nanoseconds count up from the second below, as in adjtimex(2).
fn offset(seconds: f64) -> TimeOffset {
    let below = seconds.floor();
    let nanos = (((seconds - below) * 1e9) as u32).min(999_999_999);
    TimeOffset { seconds: below as i64, nanos }
}

/// Changes the clock, if this machine is disposable.
fn change(how: impl FnOnce(UnixClock) -> Result<(), Error>) -> Result<(), String> {
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !command_line.split_whitespace().any(|word| word == DISPOSABLE) {
        return Err(format!(
            "the kernel was not started with {DISPOSABLE}: its clock is not changed"
        ));
    }
    how(UnixClock::CLOCK_REALTIME).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_offset_counts_up_from_the_second_below() {
        let parts = |seconds| {
            let TimeOffset { seconds, nanos } = offset(seconds);
            (seconds, nanos)
        };
        assert_eq!(parts(0.25), (0, 250_000_000));
        assert_eq!(parts(-0.25), (-1, 750_000_000));
        assert_eq!(parts(-3.0), (-3, 0));
        assert_eq!(parts(-1e-12), (-1, 999_999_999));
    }

    #[test]
    fn the_closest_reading_counts() {
        // Each reading of the clock takes 7 ns longer than the one before, but for the fifth.
        let (now_ns, turn) = (Cell::new(0), Cell::new(0));
        let clock = || {
            turn.set(turn.get() + 1);
            now_ns.set(now_ns.get() + if turn.get() == 10 { 1 } else { 7 * turn.get() });
            now_ns.get()
        };
        let (before, count, after) = closest(clock, || u64::try_from(turn.get()).unwrap());
        assert_eq!((after - before, count, turn.get()), (1, 9, 2 * i128::from(TRIES)));
    }

    #[test]
    fn only_a_disposable_machine_has_its_clock_changed() {
        let words: [&[&str]; 3] = [&["step", "0"], &["frequency", "0"], &["leap", "none"]];
        for words in words {
            assert!(run(words).unwrap_err().contains("not changed"), "{words:?}");
        }
        for words in [
            &["step", "inf"][..],
            &["step"],
            &["leap", "skip"],
            &["print", "soon"],
            &["stamps", "soon"],
            &["tsc-pairs", "1", "soon"],
            &["tsc-pairs", "1"],
        ] {
            assert!(!run(words).unwrap_err().contains("not changed"), "{words:?}");
        }
    }
}
