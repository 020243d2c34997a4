//! What moves the index of pipe-based context switching (UnixBench's context1), each
//! alone: where the two processes run, and whether their CPUs go idle between.
//! `docs/measurements/locks.md` reads them.

use std::error::Error;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inspect::pipe_pair::{self, PipePair};
use instruments::latency::unixbench_index;

use crate::rounds;

/// The argument with which this program is the other process.
pub(crate) const ECHO: &str = "pipe-echo";

/// How long one setting has a turn in each round.
const TURN: Duration = Duration::from_millis(300);

/// Where the processes run, and whether a loop of SCHED_IDLE keeps their CPUs from
/// going idle.
struct Setting {
    name: &'static str,
    /// Indices of the CPUs that this process may use.
    cpus: [usize; 2],
    awake: bool,
    loops_per_s: Vec<f64>,
}

/// The other process, until its input ends.
pub(crate) fn echo() -> Result<bool, String> {
    // std's own output waits for a line's end.
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let output = output.map_err(|error| error.to_string())?;
    let echoed = pipe_pair::echo(std::io::stdin().lock(), output);
    echoed.map(|()| true).map_err(|error| error.to_string())
}

/// Prints the table; there is no bar.
pub(crate) fn run(rounds: u32) -> Result<bool, String> {
    print(rounds).map(|()| true).map_err(|error| error.to_string())
}

fn print(rounds: u32) -> Result<(), Box<dyn Error>> {
    let allowed = linux::cpus::allowed()?;
    let [first, second, ..] = allowed[..] else {
        return Err("two CPUs are needed".into());
    };
    let setting = |name, cpus, awake| Setting { name, cpus, awake, loops_per_s: Vec::new() };
    // On one CPU one of the two always runs.
    let mut settings = [
        setting("one CPU", [0, 0], false),
        setting("two CPUs", [0, 1], false),
        setting("two CPUs, kept awake", [0, 1], true),
    ];
    for _ in 0..rounds {
        for setting in &mut settings {
            let cpus = setting.cpus.map(|index| [first, second][index]);
            setting.loops_per_s.push(loops_per_s(cpus, setting.awake)?);
        }
    }
    println!("{rounds} interleaved rounds of {} ms; medians\n", TURN.as_millis());
    println!(
        "{:<38}{:>10}{:>12}{:>8}",
        "pipe-based context switching", "loops/s", "a loop, µs", "index"
    );
    for setting in settings {
        let median = rounds::median(setting.loops_per_s);
        println!(
            "{:<38}{median:>10.0}{:>12.2}{:>8.0}",
            setting.name,
            1e6 / median,
            unixbench_index(median)
        );
    }
    Ok(())
}

fn loops_per_s(cpus: [u32; 2], awake: bool) -> Result<f64, Box<dyn Error>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut loops = Vec::new();
        for cpu in cpus.into_iter().filter(|_| awake) {
            let over = &over;
            loops.push(scope.spawn(move || -> Result<(), String> {
                let _pinned = linux::cpus::pin(cpu).map_err(|why| why.to_string())?;
                // Where it may not be so, it would take what is to be measured.
                linux::scheduling::yield_to_all().map_err(|why| why.to_string())?;
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Ok(())
            }));
        }
        let found = one_turn(cpus);
        over.store(true, Ordering::Relaxed);
        for one in loops {
            one.join().expect("a loop does not panic")?;
        }
        found
    })
}

fn one_turn([here, there]: [u32; 2]) -> Result<f64, Box<dyn Error>> {
    let mut partner = Command::new(std::env::current_exe()?);
    partner.arg(ECHO);
    let mut pair = {
        // A process starts where its parent may run.
        let _pinned = linux::cpus::pin(there)?;
        PipePair::start(partner)?
    };
    let _pinned = linux::cpus::pin(here)?;
    // The first trip waits for the partner's start.
    let first = pair.pass()?;
    let began = Instant::now();
    let mut loops = first;
    while began.elapsed() < TURN {
        loops = pair.pass()?;
    }
    Ok((loops - first) as f64 / began.elapsed().as_secs_f64())
}
