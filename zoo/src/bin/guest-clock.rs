//! Prints and changes the clock of a disposable guest, says what crate `clock` knows of
//! its error in ns, and sees whether two
//! CPUs' TSCs are in order: `cargo xtask machines` runs this program in its
//! guests. It changes a clock only if the kernel's
//! command line marks the machine as disposable.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use std::{env, fs};

use clock_steering::unix::{Error, UnixClock};
use clock_steering::{Clock, LeapIndicator, TimeOffset};
use pvclock::counter::{Counter as _, Tsc};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// A parameter on the command line of a kernel whose clock may be set.
const DISPOSABLE: &str = "parachron.disposable";

const USAGE: &str = "usage: print INTERVAL_MS | tsc | tsc-order | step SECONDS | frequency PPM | \
    leap insert|delete|none | error";

/// The clocks printed, in the order of a line.
const CLOCKS: [ClockId; 4] =
    [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime, ClockId::MonotonicRaw];

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
    match *words {
        ["print", interval_ms] => {
            let interval_ms = interval_ms.parse().map_err(|error| format!("{error}; {USAGE}"))?;
            print(Duration::from_millis(interval_ms)).map_err(|error| error.to_string())
        }
        ["tsc"] => {
            println!("{}", Tsc.read_ordered());
            Ok(())
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
        ["error"] => {
            let error = clock::SystemTime::now().error();
            println!("{}", error.map_or("unknown".to_owned(), |it| it.as_nanos().to_string()));
            Ok(())
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
        let times = CLOCKS.map(clock_gettime);
        let ns =
            times.map(|time| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec));
        let [realtime, monotonic, boottime, raw] = ns;
        out.write_all(format!("tick {realtime} {monotonic} {boottime} {raw}\n").as_bytes())?;
        out.flush()?;
        sleep(interval);
    }
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
                let now = Tsc.read_ordered();
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
    fn only_a_disposable_machine_has_its_clock_changed() {
        let words: [&[&str]; 3] = [&["step", "0"], &["frequency", "0"], &["leap", "none"]];
        for words in words {
            assert!(run(words).unwrap_err().contains("not changed"), "{words:?}");
        }
        for words in [&["step", "inf"][..], &["step"], &["leap", "skip"], &["print", "soon"]] {
            assert!(!run(words).unwrap_err().contains("not changed"), "{words:?}");
        }
    }
}
