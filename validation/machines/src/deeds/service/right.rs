//! When the time of day is right again: by readings from outside that can tell, and by
//! the steps that the daemon logged. A reading that took seconds is no proof, and one
//! after the step does not show how far off the clock was.

use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::checks::{Check, READ_TO_S};
use crate::machine::Machine;
use crate::outcome::Result;

use super::RIGHT_S;

/// The service has this long to find the sources, poll and correct, in a machine
/// that is slow.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A reading known less well decides nothing, s.
const TELLING_S: f64 = READ_TO_S;

/// What is logged may come so much later than the step: it is held back while evidence
/// of what happened comes in.
const LOGGED: Duration = Duration::from_secs(5);

/// A stop takes longer than was asked for, and the clock was off before it, s.
const AWAY_S: f64 = 0.5;

/// What was logged since this was last asked, as JSON, of the fields that tell of a step.
const LOG: &str = "timeout 25 journalctl -q -o json \
    --output-fields=PARACHRON_HOW,PARACHRON_BY_NS --cursor-file=/run/steps \
    PARACHRON_EVENT=corrected; true";

/// One reading from outside: how far ahead, how well that is known, and when it was
/// taken, s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) ahead_s: f64,
    pub(super) bound_s: f64,
    pub(super) after_s: f64,
}

impl Reading {
    fn tells(&self) -> bool {
        self.bound_s < TELLING_S
    }

    pub(super) fn is_right(&self) -> bool {
        self.tells() && self.ahead_s.abs() <= self.bound_s + RIGHT_S
    }
}

/// The readings until one is right, or patience ends.
pub(super) fn look(machine: &mut Machine, patience: Duration) -> Result<Vec<Reading>, String> {
    let (start, mut readings) = (Instant::now(), Vec::new());
    loop {
        let (ahead_s, bound_s) = machine.ahead_at_once_s()?;
        let reading = Reading { ahead_s, bound_s, after_s: start.elapsed().as_secs_f64() };
        readings.push(reading);
        if reading.is_right() || start.elapsed() > patience {
            return Ok(readings);
        }
    }
}

/// The steps that were logged since this was last asked, s: what was added to the clock.
pub(super) fn steps_s(machine: &mut Machine) -> Result<Vec<f64>, String> {
    Ok(logged_s(&machine.execute(LOG)?))
}

/// Those of a log. A round of chronyd's `makestep` is commanded several times for one
/// step, each with the offset that was left or just as before: it counts once.
fn logged_s(log: &str) -> Vec<f64> {
    let mut steps = Vec::new();
    let mut is_round = false;
    for entry in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let number = |name: &str| entry[name].as_str().and_then(|ns| ns.parse::<f64>().ok());
        let by_ns = number("PARACHRON_BY_NS");
        let (Some(how), Some(by_ns)) = (entry["PARACHRON_HOW"].as_str(), by_ns) else { continue };
        let goes_on = is_round && how == "makestep";
        is_round = how == "makestep";
        if how != "slew" && !goes_on {
            steps.push(by_ns / 1e9);
        }
    }
    steps
}

/// The time of day becomes right once something happened; how long that took, how far it was off,
/// and by which steps. Those of before are not told of it.
pub(super) fn right_once(
    when: &str,
    machine: &mut Machine,
    happens: impl FnOnce(&mut Machine) -> Result,
) -> Result<Check, String> {
    steps_s(machine)?;
    happens(machine)?;
    let readings = look(machine, PATIENCE)?;
    Ok(judged(when, &readings, &steps_s(machine)?, None))
}

/// The same of a line that a shell runs.
pub(super) fn right_after(when: &str, machine: &mut Machine, line: &str) -> Result<Check, String> {
    right_once(when, machine, |machine| machine.line.run("right", 150, line).map(drop))
}

/// Stopped for a while, and then what a line does: right again, by steps of just that.
pub(super) fn after_a_stop(
    when: &str,
    machine: &mut Machine,
    pause: Duration,
    then: &str,
) -> Result<Check, String> {
    // What came late of before is not of this one.
    steps_s(machine)?;
    let begun = Instant::now();
    machine.pause(pause)?;
    let away_s = between(pause, begun.elapsed());
    machine.execute(then)?;
    corrected(when, machine, away_s)
}

/// What a machine was away for: at least what was meant, and at most what it took.
pub(super) fn between(least: Duration, most: Duration) -> RangeInclusive<f64> {
    least.as_secs_f64() - AWAY_S..=most.as_secs_f64() + AWAY_S
}

/// The time of day becomes right, by steps that come to what the clock was behind, s.
pub(super) fn corrected(
    when: &str,
    machine: &mut Machine,
    away_s: RangeInclusive<f64>,
) -> Result<Check, String> {
    let readings = look(machine, PATIENCE)?;
    let mut steps = steps_s(machine)?;
    let begun = Instant::now();
    while !away_s.contains(&steps.iter().sum()) && begun.elapsed() < LOGGED {
        sleep(Duration::from_millis(500));
        steps.extend(steps_s(machine)?);
    }
    Ok(judged(when, &readings, &steps, Some(away_s)))
}

/// Whether the last reading is right, and the steps are what was expected of them.
pub(super) fn judged(
    when: &str,
    readings: &[Reading],
    steps: &[f64],
    expected: Option<RangeInclusive<f64>>,
) -> Check {
    let what = format!("service: {when}: right within {} s", PATIENCE.as_secs());
    let Some(last) = readings.last() else { return Check::new(what, "no reading", false) };
    let listed: Vec<String> = steps.iter().map(|by_s| format!("{by_s:+.3} s")).collect();
    let is_expected = expected.as_ref().is_none_or(|all| all.contains(&steps.iter().sum()));
    let wanted = expected.filter(|_| !is_expected);
    let wanted = wanted.map_or(String::new(), |all| {
        format!(", where {:.1} to {:.1} s had to be logged", all.start(), all.end())
    });
    Check::new(
        what,
        format!(
            "{:.3} ± {:.3} s ahead after {:.1} s; steps: {}{wanted}",
            last.ahead_s,
            last.bound_s,
            last.after_s,
            if listed.is_empty() { "none".to_owned() } else { listed.join(", ") },
        ),
        last.is_right() && is_expected,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ahead_s: f64, bound_s: f64) -> Reading {
        Reading { ahead_s, bound_s, after_s: 1.0 }
    }

    #[test]
    fn a_reading_that_took_seconds_is_no_proof() {
        for (ahead_s, bound_s, is_right) in [
            (-0.018, 0.213, true),
            (-0.018, 0.499, true),
            (-0.26, 0.2, false),
            // Of row debian-parachrond, while an ordinary user floods it.
            (-1.148, 2.510, false),
            (0.0, 2.510, false),
        ] {
            let check = judged("x", &[reading(ahead_s, bound_s)], &[], None);
            assert_eq!(check.passed, is_right, "{}", check.found);
        }
        assert!(!judged("x", &[], &[], None).passed);
    }

    #[test]
    fn a_stop_that_nothing_corrected_is_wrong_and_so_is_another_step() {
        let of = |steps: &[f64]| {
            let away_s = between(Duration::from_secs(2), Duration::from_millis(2300));
            judged("stop", &[reading(-0.02, 0.1)], steps, Some(away_s))
        };
        assert!(of(&[2.083]).passed && of(&[1.2, 0.9]).passed);
        for wrong in [&[][..], &[1.2], &[-2.1], &[2.1, 2.1], &[30.0]] {
            assert!(!of(wrong).passed, "{wrong:?}");
        }
        let found = of(&[]).found;
        assert!(found.ends_with("steps: none, where 1.5 to 2.8 s had to be logged"), "{found}");
    }

    #[test]
    fn what_the_journal_has_of_corrections_is_steps() {
        let entry = |how: &str, by_ns: &str| {
            format!("{{\"PARACHRON_HOW\":\"{how}\",\"PARACHRON_BY_NS\":\"{by_ns}\"}}\n")
        };
        let log = entry("step", "2083000000") + &entry("slew", "20000000") + "-- no json\n";
        assert_eq!(logged_s(&log), [2.083]);
        let rounds = entry("makestep", "10000600000").repeat(3)
            + &entry("slew", "1000")
            + &entry("makestep", "-2000000000");
        assert_eq!(logged_s(&rounds), [10.0006, -2.0]);
        assert_eq!(logged_s("{\"PARACHRON_HOW\":\"step\"}"), [0.0; 0]);
    }
}
