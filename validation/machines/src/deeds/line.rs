//! The kernel's line held to a VMClock page's by `parachrond` alone (docs/measurements/line.md).
//!
//! The page is written here (`vmclock.rs`) at a known rate, then made faster, and then has a jump
//! that its marker tells. The witness reads both lines in the machine (`guest-clock line`).

use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::{held, vmclock};

/// The clock is within this of the page, ns: 999 of 1000 samples, and each.
const NEAR_NS: f64 = 10.0;
const WORST_NS: f64 = 50.0;

/// Between two samples, ms. One that is late shows that the machine had no ticks meanwhile, which
/// leaves the clock off (docs/measurements/line.md): so many do not count.
const EACH_MS: u32 = 50;
const LATE_MS: f64 = 20.0;
const DISTURBED: usize = 20;

/// What is done to the page after the start: faster than then by so much, ppm, and a jump; how long
/// until it is followed, and for how long that is sampled, s.
const CHANGES: [(&str, f64, Duration, u32, u32); 3] = [
    ("60 s after the start", 0.0, Duration::ZERO, 60, 300),
    ("10 s after the page's rate rose by 1 ppm", 1.0, Duration::ZERO, 10, 60),
    ("10 s after the page jumped by 1 ms, with its marker", 1.0, Duration::from_millis(1), 10, 60),
];

pub(super) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    let (page, mut info) = vmclock::write(machine)?;
    machine.line.run("start", 120, held::START)?;
    for (when, ppm, jump, follows_s, sampled_s) in CHANGES {
        let count = vmclock::count(machine)?;
        let now = info.time_at(count).map_err(|error| error.to_string())?;
        let since_1970 = Duration::new(now.seconds, now.subsecond_nanos()) + jump;
        info.disruption_marker += u64::from(!jump.is_zero());
        let hz = vmclock::tsc_hz() / (1.0 + ppm / 1e6);
        info = vmclock::filled(info, hz, (since_1970, count));
        page.write(&mut info, machine)?;
        let samples = sampled_s * 1000 / EACH_MS;
        let command = format!("sleep {follows_s}; guest-clock line {samples} {EACH_MS}");
        let said = machine.line.run("line", follows_s + 2 * sampled_s, &command)?;
        let (found, passed) = judge(&said.stdout, samples);
        let what = format!("line: by parachrond alone: 99.9 % within 10 ns, all in 50: {when}");
        checks.push(Check::new(what, found + said.stderr.trim(), passed));
    }
    let summary = machine.execute(held::END)?;
    let what = "line: by parachrond alone: it lived until it was ended";
    checks.push(Check::new(what, summary.trim(), summary.contains("summary: ")));
    Ok(())
}

/// Of so many samples, ns ahead and how late in ms on a line each: what is found, and whether it
/// is near enough where the machine ran. Where it ran for less than half of the time, that is not
/// measured, and not passed.
fn judge(said: &str, samples: u32) -> (String, bool) {
    let sample = |line: &str| {
        let (ahead_ns, late_ms) = line.split_once(' ')?;
        Some((ahead_ns.parse::<f64>().ok()?.abs(), late_ms.parse::<f64>().ok()?))
    };
    let all: Vec<(f64, f64)> = said.lines().filter_map(sample).collect();
    let ran = |last: &usize| {
        all[last.saturating_sub(DISTURBED)..=*last].iter().all(|(_, late_ms)| *late_ms <= LATE_MS)
    };
    let counted: Vec<f64> = (0..all.len()).filter(ran).map(|nth| all[nth].0).collect();
    let near = counted.iter().filter(|ns| **ns <= NEAR_NS).count();
    let worst_ns = counted.iter().copied().fold(0.0, f64::max);
    let found = format!(
        "{near} of {} within {NEAR_NS} ns, worst {worst_ns} ns; {} after a time without ticks",
        counted.len(),
        all.len() - counted.len()
    );
    if 2 * counted.len() < all.len() {
        return (format!("not measured: {found}"), false);
    }
    let is_near = 1000 * near >= 999 * counted.len() && worst_ns <= WORST_NS;
    (found, is_near && all.len() == samples as usize && !counted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_samples_are_near_and_none_is_far() {
        let said = |far: &str| "-9.99 0.1\n".repeat(999) + far;
        assert!(judge(&said("-49.9 0.1\n"), 1000).1);
        assert!(!judge(&said("50.1 0.1\n"), 1000).1, "one is far");
        assert!(judge(&said("50.1 20.1\n"), 1000).1, "it had no ticks");
        assert!(!judge(&said("-10.1 0.1\n11.0 0.1\n"), 1001).1, "two of 1001");
        assert!(!judge(&said(""), 1000).1 && !judge("", 0).1, "samples are missing");
        assert!(!judge(&"1.0 99.0\n".repeat(1000), 1000).1, "it never ran");
        let ran = |late: usize| "1.0 99.0\n".repeat(late) + &"1.0 0.1\n".repeat(1000 - late);
        assert!(judge(&ran(480), 1000).1, "half of the time");
        let (found, passed) = judge(&ran(481), 1000);
        assert!(!passed && found.starts_with("not measured: "), "{found}");
    }
}
