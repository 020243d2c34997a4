//! Runs the lab again and again, alone and beside two busy threads: without a fault each run
//! exits with 0, however busy the host is.
//!
//! ```sh
//! cargo run --release -p e2e --bin lab-verdicts -- [--times N]
//! ```
//!
//! Each of `parachron lab network`, `lab locks` and `lab` is run N times alone (10), and N times
//! beside two threads that never wait. A line for each command and load has the runs that
//! exited with 0, and the checks by their result. Exit code 1: a run exited with another code,
//! or more than 5 % of all checks were not measured while the lab ran alone.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::{hint, io};

const USAGE: &str = "usage: lab-verdicts [--times N]";
const USAGE_ERROR: u8 = 2;
const TIMES: usize = 10;

/// The greatest share of checks that may be left not measured where the lab runs alone, %.
const MOST_NOT_MEASURED: f64 = 5.0;

/// The arguments of the commands.
const COMMANDS: [&[&str]; 3] = [&["lab", "network"], &["lab", "locks"], &["lab"]];

/// Threads that never wait, until it goes; they end with this process, however it ends.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let spin = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        };
        let threads = (0..threads).map(|_| spin()).collect();
        Self { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Runs that ended as they must, and the checks of all of them.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    runs: usize,
    right: usize,
    passed: u64,
    failed: u64,
    not_measured: u64,
}

impl Tally {
    /// Adds a run that exited with `code`; its last line counts its checks.
    fn add(&mut self, code: Option<i32>, out: &str) {
        self.runs += 1;
        self.right += usize::from(code == Some(0));
        let last = out.lines().rev().find(|line| line.contains(" checks: "));
        let parts = last.map_or("", |line| line.trim_end_matches('.'));
        for part in parts.rsplit(": ").next().unwrap_or("").split(", ") {
            match part.split_once(' ') {
                Some((count, "passed")) => self.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => self.failed += count.parse().unwrap_or(0),
                Some((count, "not measured")) => self.not_measured += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Of all commands together.
    fn total(tallies: &[Self]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            runs: sum.runs + tally.runs,
            right: sum.right + tally.right,
            passed: sum.passed + tally.passed,
            failed: sum.failed + tally.failed,
            not_measured: sum.not_measured + tally.not_measured,
        })
    }

    const fn checks(&self) -> u64 {
        self.passed + self.failed + self.not_measured
    }

    /// The share of checks that were not measured, %: 3 of 60 are 5.
    fn share_not_measured(&self) -> f64 {
        100.0 * self.not_measured as f64 / self.checks().max(1) as f64
    }
}

/// Whether the runs beside `busy` processes met the bar, by a tally for each command. A busy
/// host measures little, so only runs alone are judged by what was measured.
fn meets_bar(tallies: &[Tally], busy: usize) -> bool {
    let total = Tally::total(tallies);
    let measured = tallies.iter().all(|tally| tally.passed > 0)
        && total.share_not_measured() <= MOST_NOT_MEASURED;
    total.right == total.runs && (busy > 0 || measured)
}

/// Builds `parachron` as it ships, beside this program.
fn build() -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    let ended = build.args(["build", "--release", "--quiet", "-p", "parachron"]).status()?;
    if !ended.success() {
        return Err(io::Error::other("parachron does not build"));
    }
    Ok(std::env::current_exe()?.with_file_name("parachron"))
}

fn times(arguments: &[String]) -> Option<usize> {
    match arguments {
        [] => Some(TIMES),
        [name, times] if name == "--times" => times.parse().ok().filter(|times| *times > 0),
        _ => None,
    }
}

/// Runs all commands, each `times` times beside `busy` processes; whether they met the bar.
fn run(program: &PathBuf, times: usize, busy: usize) -> io::Result<bool> {
    let _load = Load::start(busy);
    let beside = if busy == 0 { "alone".to_owned() } else { format!("beside {busy} busy") };
    let mut tallies = Vec::new();
    for command in COMMANDS {
        let mut tally = Tally::default();
        for _ in 0..times {
            let ended = Command::new(program).args(command).stdin(Stdio::null()).output()?;
            let out = String::from_utf8_lossy(&ended.stdout);
            tally.add(ended.status.code(), &out);
            if !ended.status.success() {
                println!("{out}\n{}", String::from_utf8_lossy(&ended.stderr));
            }
        }
        let Tally { runs, right, passed, failed, not_measured } = tally;
        println!("parachron {}, {beside}: {right} of {runs} runs exited with 0", command.join(" "));
        println!(
            "{} checks: {passed} passed, {failed} failed, {not_measured} not measured",
            tally.checks()
        );
        tallies.push(tally);
    }
    let total = Tally::total(&tallies);
    let bar = if busy == 0 {
        format!("at most {MOST_NOT_MEASURED} % are allowed")
    } else {
        "not judged, as the load keeps checks from being measured".to_owned()
    };
    println!(
        "all commands, {beside}: {} of {} checks not measured, {:.1} %: {bar}",
        total.not_measured,
        total.checks(),
        total.share_not_measured()
    );
    Ok(meets_bar(&tallies, busy))
}

fn run_all(times: usize) -> io::Result<bool> {
    let program = build()?;
    let alone = run(&program, times, 0)?;
    Ok(run(&program, times, 2)? && alone)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(times) = times(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    };
    match run_all(times) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lab-verdicts: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ten runs.
    fn tally(right: usize, passed: u64, not_measured: u64) -> Tally {
        Tally { runs: 10, right, passed, failed: 0, not_measured }
    }

    #[test]
    fn checks_are_counted_from_the_last_line_that_counts_them() {
        let mut tally = Tally::default();
        tally.add(Some(0), "passed  event index\n\n7 checks: 4 passed, 3 not measured.\n");
        tally.add(Some(1), "\n9 checks: 7 passed, 1 failed, 1 not measured.\n");
        tally.add(None, "");
        let expected = Tally { runs: 3, right: 1, passed: 11, failed: 1, not_measured: 4 };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_run_alone_may_leave_a_twentieth_of_the_checks_not_measured() {
        assert!(meets_bar(&[tally(10, 95, 5)], 0), "5 %");
        assert!(!meets_bar(&[tally(10, 94, 6)], 0), "6 %");
        assert!(meets_bar(&[tally(10, 100, 0), tally(10, 94, 6)], 0), "3 % of all commands");
        assert!(!meets_bar(&[tally(10, 100, 0), tally(10, 0, 0)], 0), "a command without checks");
        assert!(meets_bar(&[tally(10, 10, 90)], 2), "a busy host");
        for busy in [0, 2] {
            assert!(!meets_bar(&[tally(9, 100, 0)], busy), "a run exited with 1");
        }
    }
}
