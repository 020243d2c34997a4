//! What `watch` costs on a machine of many CPUs, by the kernel's own account of it.
//! The emulator counts instructions (`-icount`): one takes a nanosecond, however busy
//! this system is, and idle time costs none.

use std::time::Duration;

use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::Failure;

use super::{Done, Place};

/// Of one CPU.
const BAR_PERCENT: f64 = 0.1;

/// For how long it is counted, s.
const COUNTED_S: f64 = 60.0;
/// Two readings of /proc/uptime, which has hundredths.
const HUNDREDTHS_S: f64 = 0.02;

/// Fewer wake-ups are no watch at its default of four samples a second.
const TURNS: f64 = 3.9 * COUNTED_S;

/// A boot of many CPUs, which come up one after another.
const BOOT: Duration = Duration::from_secs(300);

/// Time on a CPU, ns, and how often it was put on one, of all its threads, after its
/// start and a minute later (Linux: Documentation/scheduler/sched-stats.rst). The last
/// line: how many CPUs `/proc/stat` has.
const LINE: &str = "parachron watch --plain >/tmp/watch 2>&1 & sleep 5; \
    account() { cat /proc/$!/task/*/schedstat | \
    awk '{ran += $1; turns += $3} END{printf \"%d %d \", ran, turns}'; \
    cut -d ' ' -f 1 /proc/uptime; }; account; sleep 60; account; \
    kill -INT $!; grep -c '^cpu[0-9]' /proc/stat";

pub(super) fn run(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    let record = machine.line.ready(BOOT).and_then(|_| machine.line.run("watch", 120, LINE));
    let record = record.map_err(|why| machine.failure(&why))?;
    done.checks.push(judge(&record.stdout));
    Ok(())
}

fn judge(text: &str) -> Check {
    let lines: Vec<Vec<f64>> =
        text.lines().map(|line| line.split(' ').flat_map(str::parse).collect()).collect();
    let found = match lines.as_slice() {
        [before, after, cpus] if before.len() == 3 && after.len() == 3 && cpus.len() == 1 => {
            Ok(([0, 1, 2].map(|at| after[at] - before[at]), cpus[0]))
        }
        _ => Err(format!("not counted: {text:?}")),
    };
    let what = format!("watch: on many CPUs below {BAR_PERCENT} % of one, by the kernel's account");
    Check::of(&what, found, |([ran_ns, turns, over_s], cpus)| {
        let percent = ran_ns / 1e9 / over_s * 100.0;
        let text = format!(
            "{cpus} CPUs: {percent:.4} % over {over_s:.0} s, {:.1} wake-ups a second of {:.0} µs",
            turns / over_s,
            ran_ns / turns / 1e3
        );
        let watched = turns >= TURNS && over_s >= COUNTED_S - HUNDREDTHS_S;
        (text, watched && percent < BAR_PERCENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_a_watch_that_ran_is_held_to_the_bar() {
        let after = |ran_ns: u64, turns: u64| {
            judge(&format!("1000 10 5.50\n{} {} 65.50\n64\n", 1000 + ran_ns, 10 + turns))
        };
        assert!(after(59_000_000, 240).passed);
        assert_eq!(
            after(59_000_000, 240).found,
            "64 CPUs: 0.0983 % over 60 s, 4.0 wake-ups a second of 246 µs"
        );
        assert!(!after(61_000_000, 240).passed, "dearer");
        assert!(!after(1_000_000, 20).passed, "it did not watch");
        assert!(!judge("1000 10 5.50\n").passed, "it ended");
    }
}
