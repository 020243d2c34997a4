//! `parachron drift` against NTP servers of known error.
//!
//! QEMU's emulation drives hpet, acpi_pm and the RTC by this system's clocks,
//! and Linux knows their rates exactly: a machine on one of the timers, and its
//! RTC, gain nothing on a server with this system's time. A machine that would
//! count by its TSC, at the rate that its kernel found, is put on a timer. Under
//! KVM its clock has the rate of its host's, which ptp_kvm shows.

use serde_json::Value;

use crate::checks::{Check, Checks, list};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;

/// Linux's whole-number scale for either timer is this good, ppm.
const EXACT_PPM: f64 = 0.1;

/// A wider interval holds nearly anything, and shows nothing, ppm: of a clock of the
/// machine's, and of an RTC, which is read at the edges of its seconds. This system
/// is too busy then.
const USEFUL_PPM: f64 = 100.0;
const RTC_USEFUL_PPM: f64 = 20_000.0;

/// How fast the second server is, ppm.
const FAST_PPM: f64 = 50.0;

/// The servers, each by its words: right, fast, and wrong by 20 ms in one answer
/// of fifty.
const SERVERS: [&[&str]; 3] = [&[], &["50"], &["0", "50", "0.02"]];

/// The clocks that run at the rate of the clock source.
const CLOCKS: [&str; 3] = ["raw", "monotonic", "realtime"];

/// Clock sources that count this system's clock exactly.
const TIMERS: [&str; 2] = ["hpet", "acpi_pm"];

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
    if references.is_empty() {
        return Err("neither a network nor a PTP clock to compare with".to_owned());
    }
    against(place, machine, &references, checks)
}

/// The clocks that run at a known rate, and the RTC, against references of known rate.
pub(super) fn against(
    place: &Place<'_>,
    machine: &mut Machine,
    references: &[Reference],
    checks: &mut Checks,
) -> Result {
    let source = machine.execute("cat $CLOCKSOURCE")?;
    put_on_a_timer(place, machine)?;
    // A page's option takes its device behind a sign alone.
    let option = |(name, ..): &Reference| name.replacen("vmclock ", "vmclock=", 1);
    let options: Vec<String> = references.iter().map(option).collect();
    let line = format!(
        "parachron drift --duration 20s --format json --clock {},rtc --{}",
        CLOCKS.join(","),
        options.join(" --")
    );
    let record = machine.line.run("drift", 90, &line)?;
    let last = record.stderr.lines().next_back().unwrap_or_default();
    let found = format!("{} {last}", record.status);
    checks.push(Check::new("drift: exit code 0", found.trim(), record.status == 0));
    let report: Result<Value, String> =
        serde_json::from_str(&record.stdout).map_err(|error| format!("drift: {error}"));
    for (name, what, fast_ppm) in references {
        for clock in CLOCKS.into_iter().chain(["rtc"]) {
            checks.push(holds(&report, clock, (name, what), 0.0 - fast_ppm));
        }
    }
    // What a row does next is for the clock source that it states.
    machine.execute(&format!("echo {source} >$CLOCKSOURCE")).map(drop)
}

/// Has the kernel count by a clock source whose rate is known; an error where there
/// is none.
pub(super) fn put_on_a_timer(place: &Place<'_>, machine: &mut Machine) -> Result {
    let truth = place.row.truth()?;
    if truth.clocksource == "kvm-clock" || TIMERS.contains(&truth.clocksource.as_str()) {
        return Ok(());
    }
    let timer = TIMERS.into_iter().find(|timer| truth.available.iter().any(|one| one == timer));
    let timer = timer.ok_or("no clock source of known rate")?;
    machine.execute(&format!("echo {timer} >$CLOCKSOURCE")).map(drop)
}

/// The 95 % interval holds the truth, and not nearly anything.
fn holds(
    report: &Result<Value, String>,
    clock: &str,
    (reference, server): (&str, &str),
    true_ppm: f64,
) -> Check {
    Check::of(
        &format!("drift: {clock} against {server}: {true_ppm:.0} ppm is in the 95 % interval"),
        report.as_ref().map_err(Clone::clone).and_then(|report| rate(report, clock, reference)),
        |(ppm, low, high)| {
            let holds = low < high && low <= true_ppm + EXACT_PPM && high >= true_ppm - EXACT_PPM;
            let right = holds && high - low < useful_ppm(clock);
            (format!("{ppm:.3} ppm, {low:.3} to {high:.3}"), right)
        },
    )
}

/// Below what width an interval of a clock shows something.
pub(super) fn useful_ppm(clock: &str) -> f64 {
    if clock == "rtc" { RTC_USEFUL_PPM } else { USEFUL_PPM }
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
        let passed =
            |reference, ppm| holds(&Ok(report.clone()), "raw", (reference, "a server"), ppm).passed;
        assert!(passed("ntp a", 0.0));
        assert!(passed("ntp a", 4.05), "the timer's scale is known to a tenth");
        assert!(!passed("ntp a", -50.0));
        assert!(!passed("ntp b", 0.0), "no such reference");
        let wide = |clock, high: f64| {
            let report = serde_json::json!({ "pairs": [{ "clock": clock, "reference": "ntp a",
                "drift": { "frequency": { "ppm": 1.0, "interval_ppm": [-2.0, high] } } }] });
            holds(&Ok(report), clock, ("ntp a", "a server"), 0.0).passed
        };
        assert!(wide("raw", 97.0) && !wide("raw", 98.1), "shows nothing");
        assert!(wide("rtc", 19_900.0) && !wide("rtc", 20_000.0));
        let phc = report.to_string().replace("ntp a", "kvm /dev/ptp0");
        let phc = serde_json::from_str(&phc).unwrap();
        assert_eq!(rate(&phc, "raw", "phc /dev/ptp0"), Ok((1.0, -2.0, 4.0)));
    }
}
