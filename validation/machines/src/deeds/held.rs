//! A kernel's clock that `parachrond` alone disciplines, by a VMClock page that is written here at
//! a known rate (`vmclock.rs`).
//!
//! The witness is `parachron drift` against that page, which the deed `vmclock` holds to the page's
//! own rate in the same machine. While the page tells no time it holds another one, so that whoever
//! followed it on would be seen.

use pvclock::vmclock::{VmClockInfo, VmClockStatus};
use serde_json::Value;

use crate::checks::{Check, Checks, list};
use crate::machine::Machine;
use crate::outcome::Result;

use super::vmclock;

/// In calm the clock is within this and the bound that is stated of the reading, ns
/// (docs/guide/keep.md), and its rate within this of the page's, ppm.
const NEAR_NS: f64 = 10_000.0;
const NEAR_PPM: f64 = 1.0;

/// What is known less well shows nothing, ns.
const USEFUL_NS: f64 = 100_000.0;

/// An estimate that grows faster is no knowledge of the frequency, ppm: 0.1 of wander and
/// what was learnt.
const KNOWN_PPM: f64 = 0.25;

/// By how much the page is wrong while it tells no time, s, and for how long that is: its last
/// reading counts for ten seconds.
const WRONG_S: u64 = 1;
const AWAY_S: u32 = 150;

/// The daemon by its defaults, in the folders that its unit makes, with a clock that is more
/// behind than is slewed, and less than needs two sources. Until it has learnt.
pub(super) const START: &str = "guest-clock step -0.25; \
    mkdir -p /run/parachron /var/lib/parachron /var/run/clockbound; \
    parachrond >/tmp/held 2>&1 & \
    until [ -S /run/parachron/status.sock ] || ! kill -0 $!; do usleep 50000; done; \
    kill -0 $! || { cat /tmp/held; exit 1; }; sleep 30";

pub(super) const END: &str = "killall -TERM parachrond; sleep 1; \
    grep -o 'summary: .*' /tmp/held || tail -n 3 /tmp/held";

const DRIFT: &str =
    "parachron drift --duration 20s --format json --clock realtime --vmclock=/dev/vmclock0";

pub(super) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    let (page, truth) = vmclock::write(machine)?;
    machine.line.run("start", 120, START)?;
    let what = "keep: parachrond alone by a page 50 ppm fast: in calm: within 10 µs and its bound \
                of the page's time, at its rate";
    checks.push(machine.says(what, DRIFT, is_near)?);
    let mut told = VmClockInfo {
        clock_status: VmClockStatus::UNRELIABLE,
        time_sec: truth.time_sec + WRONG_S,
        ..truth
    };
    page.write(&mut told, machine)?;
    let line = format!("sleep {AWAY_S}; parachron status --format json");
    let status = machine.line.run("away", AWAY_S + 60, &line)?.stdout;
    let summary = machine.execute(END)?;
    told = VmClockInfo { seq_count: told.seq_count, ..truth };
    page.write(&mut told, machine)?;
    let what = format!(
        "keep: parachrond alone: the page has no time for {AWAY_S} s: holdover, within the error \
         that the kernel is told"
    );
    let mut check = machine.says(what, DRIFT, |said| is_held(&status, said))?;
    check.found += &format!("; its status before: {}", status.trim());
    checks.push(check);
    let what = "keep: parachrond alone by a page 50 ppm fast: one step, at the start";
    checks.push(Check::new(what, &summary, summary.contains("; steps 1, ")));
    Ok(())
}

/// The clock's offset from the page with its bound, ns, and its rate, ppm, as `drift` has them.
fn measured(said: &str) -> Option<(f64, f64, f64)> {
    let report: Value = serde_json::from_str(said).ok()?;
    let [pair] = list(&report["pairs"]) else { return None };
    let drift = &pair["drift"];
    let is_whole = list(&drift["steps"]).is_empty();
    let offset = drift["offset"]["ns"].as_f64().zip(drift["offset"]["bound_ns"].as_f64());
    let ppm = drift["frequency"]["ppm"].as_f64()?;
    offset.filter(|(_, bound_ns)| is_whole && *bound_ns <= USEFUL_NS).map(|(ns, b)| (ns, b, ppm))
}

fn is_near(said: &str) -> bool {
    measured(said)
        .is_some_and(|(ns, bound_ns, ppm)| ns.abs() <= NEAR_NS + bound_ns && ppm.abs() <= NEAR_PPM)
}

/// Without the page the clock is off by no more than the kernel was told, which is what was
/// learnt of the frequency, beside what it was off in calm.
fn is_held(status: &str, said: &str) -> bool {
    let status: Value = serde_json::from_str(status).unwrap_or_default();
    let clock = &status["clock"];
    let told_ns = clock["kernel"]["estimated_error_ns"].as_f64().unwrap_or(f64::INFINITY);
    let is_knowledge = told_ns <= NEAR_NS + KNOWN_PPM * 1e3 * f64::from(AWAY_S);
    measured(said).is_some_and(|(ns, bound_ns, _)| {
        clock["state"] == "holdover" && is_knowledge && ns.abs() <= told_ns + NEAR_NS + bound_ns
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ns: f64, bound_ns: f64, ppm: f64, steps: &str) -> String {
        format!(
            "{{\"pairs\":[{{\"drift\":{{\"steps\":[{steps}],\"frequency\":{{\"ppm\":{ppm}}},\
             \"offset\":{{\"ns\":{ns},\"bound_ns\":{bound_ns}}}}}}}]}}"
        )
    }

    #[test]
    fn a_clock_near_the_page_is_right_and_another_is_not() {
        assert!(is_near(&said(-11_000.0, 1500.0, 0.1, "")));
        assert!(!is_near(&said(-11_600.0, 1500.0, 0.1, "")));
        assert!(!is_near(&said(0.0, 200_000.0, 0.1, "")), "its bound holds anything");
        assert!(!is_near(&said(0.0, 100.0, 50.0, "")), "at another rate");
        assert!(!is_near(&said(0.0, 100.0, 0.0, "{}")), "it was stepped");
        assert!(!is_near("") && !is_near("{}"));
    }

    #[test]
    fn what_is_held_is_within_what_the_kernel_was_told() {
        let status = |state: &str, told_ns: u32| {
            format!(
                "{{\"clock\":{{\"state\":\"{state}\",\"kernel\":{{\"estimated_error_ns\":{told_ns}}}}}}}"
            )
        };
        let held = |state, told_ns, ns| is_held(&status(state, told_ns), &said(ns, 100.0, 0.0, ""));
        assert!(held("holdover", 20_000, -30_000.0));
        assert!(!held("holdover", 20_000, -31_000.0), "farther off");
        assert!(!held("holdover", 50_000, 0.0), "that is no knowledge");
        assert!(!held("synchronised", 20_000, 0.0), "it follows something");
        assert!(!held("holdover", 20_000, 1e9), "the page that tells no time");
        assert!(!is_held("", &said(0.0, 100.0, 0.0, "")));
    }
}
