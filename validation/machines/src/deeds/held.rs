//! A kernel's clock that `parachrond` alone disciplines, by a VMClock page that is written
//! here at a known rate (`vmclock.rs`).
//!
//! The truth is that page as it was written, at counts of the TSC: `guest-clock tsc-pairs`
//! reads these beside the clock, and what time they are is worked out here, outside the
//! machine. What the kernel's frequency has to be is the page's rate against
//! CLOCK_MONOTONIC_RAW, which nobody steers, at the same counts.
//!
//! While the page tells no time it holds another one, so that whoever followed it on would
//! be seen.

mod look;

use std::time::Duration;

use pvclock::vmclock::{VmClockInfo, VmClockStatus};

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::vmclock;
use look::{Ahead, Look};

/// In calm the clock is within this and the bound that is stated of the host's, ns
/// (docs/guide/keep.md).
const NEAR_NS: f64 = 10_000.0;

/// What is known less well shows nothing, ns: a bound, or a look from outside.
const USEFUL_NS: f64 = 100_000.0;

/// An estimate that grows faster is no knowledge of the frequency, ppm: 0.1 of wander and
/// what was learnt.
const KNOWN_PPM: f64 = 0.25;

/// The clock's time and the page's at the start: more than is slewed, less than needs two
/// sources.
const BEHIND: Duration = Duration::from_millis(250);

/// By how much the page is wrong while it tells no time, s.
const WRONG_S: u64 = 1;

/// Once the page tells the time again, s.
const BACK_S: u32 = 30;

/// The daemon by its defaults, in the folders that its unit makes.
const START: &str = "mkdir -p /run/parachron /var/lib/parachron /var/run/clockbound; \
    parachrond >/tmp/held 2>&1 & \
    until [ -S /run/parachron/status.sock ] || ! kill -0 $!; do usleep 50000; done; \
    kill -0 $! || { cat /tmp/held; exit 1; }";

const END: &str = "killall -TERM parachrond; sleep 1; \
    grep -o 'summary: .*' /tmp/held || tail -n 3 /tmp/held";

/// Until it has learnt, s; how often it is looked at in calm, and how far apart, ms.
const LEARNS_S: u32 = 30;
const LOOKS: u32 = 30;
const EACH_MS: u32 = 2000;

/// How well the frequency is known then, ppm: docs/guide/keep.md has 1 ppm after some seconds.
const LEARNT_PPM: f64 = 1.0;

/// For how long the page tells no time, s.
const AWAY_S: u32 = 120;

pub(super) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    let unsteered = look::pairs(&machine.execute("guest-clock tsc-pairs 2 1000")?)?;
    let (hz, (at, count)) = look::rate(&unsteered)?;
    let (page, truth) = vmclock::put(machine, hz, (at + BEHIND, count))?;
    machine.execute(START)?;
    let calm = Look::at(machine, LEARNS_S, LOOKS, EACH_MS)?;
    checks.push(near("in calm", &truth, &calm, LOOKS));
    checks.push(frequency(&truth, &calm, LEARNT_PPM));
    let mut told = VmClockInfo {
        clock_status: VmClockStatus::UNRELIABLE,
        time_sec: truth.time_sec + WRONG_S,
        ..truth
    };
    page.write(&mut told, machine)?;
    let away = Look::at(machine, AWAY_S, 2, 1000)?;
    checks.push(held(&truth, (&calm, &away), AWAY_S));
    told = VmClockInfo { seq_count: told.seq_count, ..truth };
    page.write(&mut told, machine)?;
    let back = Look::at(machine, BACK_S, 10, 1000)?;
    checks.push(near("once the page has a time again", &truth, &back, 10));
    let summary = machine.execute(END)?;
    checks.push(stepped_once(&summary));
    Ok(())
}

/// Every look is within the bound that the daemon states, and what is promised beside it.
fn near(when: &str, truth: &VmClockInfo, look: &Look, looks: u32) -> Check {
    let what = format!(
        "keep: parachrond alone by a page 50 ppm fast: {when}: within 10 µs and its bound of the \
         page's time"
    );
    let known = look.ahead(truth).and_then(|ahead| Ok((ahead, look.bound_ns()?)));
    Check::of(&what, known, |(ahead, bound_ns)| {
        let within = |one: &Ahead| one.ns.abs() <= NEAR_NS + bound_ns + one.known_ns;
        let shows = |one: &Ahead| one.known_ns <= USEFUL_NS && bound_ns <= USEFUL_NS;
        let passed =
            ahead.len() == looks as usize && ahead.iter().all(|it| within(it) && shows(it));
        let largest = ahead.iter().max_by(|one, other| one.ns.abs().total_cmp(&other.ns.abs()));
        let largest = largest.map_or("nothing".to_owned(), Ahead::to_string);
        let text = format!(
            "{} looks in {:.0} s: {largest} ahead at most; bound {:.2} µs",
            ahead.len(),
            look.lasted_s(),
            bound_ns / 1e3
        );
        (text + &look.log(passed), passed)
    })
}

/// The kernel's frequency is the rate that was written.
fn frequency(truth: &VmClockInfo, look: &Look, learnt_ppm: f64) -> Check {
    let what = format!(
        "keep: parachrond alone by a page 50 ppm fast: the kernel's frequency is the page's rate \
         within {learnt_ppm} ppm"
    );
    Check::of(&what, look.expected_ppm(truth), |(expected_ppm, known_ppm)| {
        let off_ppm = look.frequency_ppm - expected_ppm;
        let passed = off_ppm.abs() <= learnt_ppm + known_ppm && known_ppm <= learnt_ppm;
        let text = format!(
            "{:.4} ppm set; {expected_ppm:.4} ± {known_ppm:.4} ppm by the page and \
             CLOCK_MONOTONIC_RAW",
            look.frequency_ppm
        );
        (text + &look.log(passed), passed)
    })
}

/// Without the page the clock is off by no more than the kernel is told, which is what was
/// learnt of the frequency, beside what it was off in calm.
fn held(truth: &VmClockInfo, (calm, away): (&Look, &Look), away_s: u32) -> Check {
    let what = format!(
        "keep: parachrond alone: the page has no time for {away_s} s: holdover, within the \
         error that the kernel is told"
    );
    let known = || {
        let last = away.ahead(truth)?.pop().ok_or("no look")?;
        Ok((last, calm.bound_ns()?, away.since_s(calm, truth)?))
    };
    Check::of(&what, known(), |(last, bound_ns, since_s)| {
        let told_ns = away.estimated_ns;
        let is_within = last.ns.abs() <= told_ns + NEAR_NS + bound_ns + last.known_ns;
        let is_knowledge = told_ns <= NEAR_NS + KNOWN_PPM * 1e3 * since_s;
        let is_away = away.state == "holdover" && since_s >= f64::from(away_s);
        let passed = is_within && is_knowledge && is_away;
        let text = format!(
            "{} after {since_s:.0} s: {last} ahead; the kernel's maxerror is {:.0} µs",
            away.state,
            told_ns / 1e3
        );
        (text + &away.log(passed), passed)
    })
}

/// It has corrected the clock at the start, and disciplined it since.
fn stepped_once(summary: &str) -> Check {
    let what = "keep: parachrond alone by a page 50 ppm fast: one step, at the start";
    Check::new(what, summary, summary.contains("; steps 1, "))
}

#[cfg(test)]
mod tests;
