//! Runs the lab again and again, alone and beside two busy processes: without a fault each run
//! exits with 0, however busy the host is.
//!
//! ```sh
//! cargo run --release -p e2e --bin lab-verdicts -- [--times N]
//! ```
//!
//! Each of `parachron lab network`, `lab locks` and `lab` is run N times alone (10), and N times
//! beside two processes that never wait. A line for each command and load has the runs that
//! exited with 0, and the checks by their result. Exit code 1: a run exited with another code.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

const USAGE: &str = "usage: lab-verdicts [--times N]";
const USAGE_ERROR: u8 = 2;
const TIMES: usize = 10;

/// The arguments of the commands.
const COMMANDS: [&[&str]; 3] = [&["lab", "network"], &["lab", "locks"], &["lab"]];

/// Processes that never wait, until it goes.
struct Load(Vec<Child>);

impl Load {
    fn start(processes: usize) -> io::Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..processes {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(command.spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
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

/// Runs all commands, each `times` times beside `busy` processes; whether all were right.
fn run(program: &PathBuf, times: usize, busy: usize) -> io::Result<bool> {
    let _load = Load::start(busy)?;
    let mut all_right = true;
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
        let is_busy = busy > 0;
        let busy = if !is_busy { "alone".to_owned() } else { format!("beside {busy} busy") };
        println!("parachron {}, {busy}: {right} of {runs} runs exited with 0", command.join(" "));
        println!(
            "{} checks: {passed} passed, {failed} failed, {not_measured} not measured",
            passed + failed + not_measured
        );
        // A busy host measures little, one that is left alone something.
        all_right &= right == runs && (is_busy || passed > 0);
    }
    Ok(all_right)
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

    #[test]
    fn checks_are_counted_from_the_last_line_that_counts_them() {
        let mut tally = Tally::default();
        tally.add(Some(0), "passed  event index\n\n7 checks: 4 passed, 3 not measured.\n");
        tally.add(Some(1), "\n9 checks: 7 passed, 1 failed, 1 not measured.\n");
        tally.add(None, "");
        let expected = Tally { runs: 3, right: 1, passed: 11, failed: 1, not_measured: 4 };
        assert_eq!(tally, expected);
    }
}
