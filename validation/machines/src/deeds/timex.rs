//! Random programs of adjtimex and `clock_settime` in a machine, held against the
//! model of the crate `kernel-clock`: `guest-timex` runs them
//! (validation/machines/src/bin/guest-timex), and its transcript is replayed.

mod replay;
mod results;
mod seen;

use std::fs;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;

use replay::{Counter, Outcome, replay};
pub(crate) use results::write as write_results;

/// Programs, and the first one's seed: the same in every run, as what they meet
/// is not.
const PROGRAMS: u32 = 40;
const SEED: u32 = 5000;

/// What they may take, s.
const LIMIT_S: u32 = 240;

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = format!("guest-timex {SEED} {PROGRAMS} 100");
    let record = machine.line.run("timex", LIMIT_S, &line)?;
    let file = place.folder.join("timex.txt");
    fs::write(&file, &record.stdout).map_err(|error| format!("{}: {error}", file.display()))?;
    let counter = Counter::of(&record.stdout).ok_or("timex: no kernel in its transcript")?;
    let outcome = replay(&record.stdout, counter);
    let Outcome { programs, calls, readings, .. } = &outcome;
    let what = format!("timex: {calls} calls and {readings} readings are the model's");
    let found = match outcome.differences.first() {
        Some(first) => first.clone(),
        None => format!("{programs} programs, {} delayed", outcome.delayed),
    };
    // A machine that is delayed all the time has shown nothing.
    let passed = outcome.differences.is_empty() && *programs == PROGRAMS && *calls > PROGRAMS;
    checks.push(Check::new(what, found, passed));
    Ok(())
}

#[cfg(test)]
mod tests;
