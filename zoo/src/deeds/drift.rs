//! `parachron drift` against NTP servers of known error.
//!
//! QEMU's emulation drives hpet, acpi_pm and the RTC by this system's clocks,
//! and Linux knows their rates exactly: a machine on one of the timers, and its
//! RTC, gain nothing on a server with this system's time. How a machine counts
//! by its TSC depends on the rate that its kernel found: there the truth is how
//! its clock moved by ours over the run, read from outside.

use std::time::Instant;

use serde_json::Value;

use crate::checks::{Check, Checks, list};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;

/// Linux's whole-number scale for either timer is this good, ppm.
const EXACT_PPM: f64 = 0.1;

/// How fast the second server is, ppm.
const FAST_PPM: f64 = 50.0;

/// The servers, each by its words: right, fast, and wrong by 20 ms in one answer
/// of fifty.
const SERVERS: [&[&str]; 3] = [&[], &["50"], &["0", "50", "0.02"]];

/// The clocks that run at the rate of the clock source.
const CLOCKS: [&str; 3] = ["raw", "monotonic", "realtime"];

/// A reference: its option, what it is, how fast it is, ppm.
pub(super) type Reference = (String, &'static str, f64);

/// The server of which one answer in fifty is wrong.
pub(super) const WRONG: &str = "one wrong in fifty answers";

/// The servers of a row with a network, which last as long as these, and the PTP
/// clock of its host, where there is one.
pub(super) fn references(
    place: &Place<'_>,
    machine: &mut Machine,
) -> Result<(Vec<Server>, Vec<Reference>), String> {
    let program = place.workshop.programs.join("ntp-server");
    let wanted = if place.row.network { &SERVERS[..] } else { &[] };
    let servers = wanted.iter().map(|words| Server::with(&program, words));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let names = [("a right server", 0.0), ("one 50 ppm fast", FAST_PPM), (WRONG, 0.0)];
    let named = servers.iter().zip(names);
    let named =
        named.map(|(server, (what, ppm))| (format!("ntp 10.0.2.2:{}", server.port), what, ppm));
    let mut references: Vec<Reference> = named.collect();
    if machine.execute("ls /dev")?.lines().any(|name| name == "ptp0") {
        references.push(("phc /dev/ptp0".to_owned(), "the host's PTP clock", 0.0));
    }
    Ok((servers, references))
}

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let (_servers, references) = references(place, machine)?;
    let names: Vec<&str> = references.iter().map(|(name, ..)| name.as_str()).collect();
    let line = format!(
        "parachron drift --duration 20s --format json --clock {},rtc --{}",
        CLOCKS.join(","),
        names.join(" --")
    );
    let start = Instant::now();
    let before = machine.ahead_s()?;
    let record = machine.line.run("drift", 90, &line)?;
    let after = machine.ahead_s()?;
    let exact = ["hpet", "acpi_pm"].contains(&place.row.truth()?.clocksource.as_str());
    let truth =
        if exact { (0.0, EXACT_PPM) } else { gained(before, after, start.elapsed().as_secs_f64()) };
    let last = record.stderr.lines().next_back().unwrap_or_default();
    let found = format!("{} {last}", record.status);
    checks.push(Check::new("drift: exit code 0", found.trim(), record.status == 0));
    let report: Result<Value, String> =
        serde_json::from_str(&record.stdout).map_err(|error| format!("drift: {error}"));
    let rtc = (0.0, EXACT_PPM);
    for (name, what, fast_ppm) in &references {
        for (clock, (ppm, known_ppm)) in
            CLOCKS.map(|clock| (clock, truth)).into_iter().chain([("rtc", rtc)])
        {
            let truth = (ppm - fast_ppm, known_ppm);
            checks.push(holds(&report, clock, (name, what), truth));
        }
    }
    Ok(())
}

/// How much a clock gained between two readings of how far it was ahead, each
/// with its bound, ppm with its bound.
fn gained(before: (f64, f64), after: (f64, f64), elapsed_s: f64) -> (f64, f64) {
    ((after.0 - before.0) / elapsed_s * 1e6, (after.1 + before.1) / elapsed_s * 1e6)
}

/// The 95 % interval holds the truth, as far as that is known.
fn holds(
    report: &Result<Value, String>,
    clock: &str,
    (reference, server): (&str, &str),
    (true_ppm, known_ppm): (f64, f64),
) -> Check {
    let truth = if known_ppm <= EXACT_PPM {
        format!("{true_ppm:.0}")
    } else {
        format!("{true_ppm:.0} ± {known_ppm:.0}")
    };
    Check::of(
        &format!("drift: {clock} against {server}: {truth} ppm is in the 95 % interval"),
        report.as_ref().map_err(Clone::clone).and_then(|report| rate(report, clock, reference)),
        |(ppm, low, high)| {
            let right = low < high && low <= true_ppm + known_ppm && high >= true_ppm - known_ppm;
            (format!("{ppm:.3} ppm, {low:.3} to {high:.3}"), right)
        },
    )
}

/// A clock's frequency error, and its 95 % interval, ppm.
pub(super) fn rate(
    report: &Value,
    clock: &str,
    reference: &str,
) -> Result<(f64, f64, f64), String> {
    let mut pairs = list(&report["pairs"]).iter();
    // A host's PTP clock has its own kind in the report: `kvm /dev/ptp0`.
    let at = |name: &str| name.split_once(' ').map(|(_, at)| at.to_owned());
    let is_it = |pair: &&Value| pair["reference"].as_str().and_then(at) == at(reference);
    let pair = pairs.find(|pair| pair["clock"] == clock && is_it(pair));
    let pair = pair.ok_or_else(|| format!("no {clock} against {reference}"))?;
    let number = |path: &str| pair.pointer(path).and_then(Value::as_f64);
    let frequency = "/drift/frequency";
    let all = [
        format!("{frequency}/ppm"),
        format!("{frequency}/interval_ppm/0"),
        format!("{frequency}/interval_ppm/1"),
    ];
    let [ppm, low, high] = all.map(|path| number(&path));
    ppm.zip(low.zip(high))
        .map(|(ppm, (low, high))| (ppm, low, high))
        .ok_or_else(|| format!("no rate of {clock}: {}", pair["drift"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_the_truth_or_not() {
        let report = serde_json::json!({ "pairs": [{ "clock": "raw", "reference": "ntp a",
            "drift": { "frequency": { "ppm": 1.0, "interval_ppm": [-2.0, 4.0] } } }] });
        let passed = |reference, truth| {
            holds(&Ok(report.clone()), "raw", (reference, "a server"), truth).passed
        };
        assert!(passed("ntp a", (0.0, 0.1)));
        assert!(passed("ntp a", (-10.0, 9.0)), "the truth is known to 9 ppm");
        assert!(!passed("ntp a", (-50.0, 0.1)));
        assert!(!passed("ntp b", (0.0, 0.1)), "no such reference");
        let phc = report.to_string().replace("ntp a", "kvm /dev/ptp0");
        let phc = serde_json::from_str(&phc).unwrap();
        assert_eq!(rate(&phc, "raw", "phc /dev/ptp0"), Ok((1.0, -2.0, 4.0)));
    }

    #[test]
    fn what_a_clock_gained_is_known_to_both_bounds() {
        assert_eq!(gained((1.0, 0.001), (1.5, 0.001), 10.0), (50_000.0, 200.0));
    }
}
