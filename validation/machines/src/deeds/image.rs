//! The lab's guest image, booted by its PVH entry as any host may do, and its
//! report, read from the console.

use std::time::{Duration, SystemTime};

use crate::boot::readable;
use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::Failure;

use super::{Done, Place};

/// Clocks of this machine model, and those that only a paravirtual host has.
const PRESENT: &[&str] = &["tsc", "acpi_pm", "hpet"];
const PARAVIRTUAL: &[&str] = &["kvm-clock", "hyperv-page", "hyperv-counter"];

/// The report's first and last line (`crates/vmm/guest/src/report.rs`).
const FIRST: &str = "parachron guest report 1";
/// Of a clock 1 ms after its first reading: the guest measures the TSC itself, and
/// a busy host lets it wait.
const GONE_ON_NS: std::ops::RangeInclusive<u64> = 900_000..=10_000_000_000;
const LAST: &str = "parachron guest report ends";

/// Boots it, and reads its report.
pub(super) fn run(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let before_s = now_s();
    let mut machine = Machine::start(place.start, place.folder)?;
    let output = machine.line.until_end(Duration::from_secs(place.row.limit_s.into()));
    let output = output.map_err(|why| machine.failure(&why))?;
    done.checks.extend(checks(&lines(&readable(&output))?, (before_s, now_s())));
    Ok(())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The lines between the first and the last, which must both be present. The
/// first one may follow output of the firmware.
fn lines(output: &str) -> Result<Vec<String>, String> {
    let (_, report) = output
        .split_once(FIRST)
        .ok_or_else(|| format!("the guest image did not print {FIRST:?}"))?;
    let (report, _) = report
        .split_once(LAST)
        .ok_or_else(|| format!("the guest image stopped before {LAST:?}:{report}"))?;
    Ok(report.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The checks on a report, between two of this machine's times, s since 1970.
fn checks(lines: &[String], (before_s, after_s): (u64, u64)) -> Vec<Check> {
    let mut checks: Vec<Check> = PRESENT.iter().map(|clock| is_read(clock, lines)).collect();
    checks.extend(PARAVIRTUAL.iter().map(|clock| {
        Check::of(&format!("lab: {clock} is not claimed"), value(lines, clock), |value| {
            (value.to_owned(), value.starts_with("not there"))
        })
    }));
    // Within the second that it rounds to.
    let what = "lab: the RTC has this machine's time, ± 1 s";
    checks.push(Check::of(what, value(lines, "rtc"), |value| {
        let ns = value.strip_suffix(" ns").and_then(|ns| ns.parse::<u64>().ok());
        let around = before_s.saturating_sub(1)..=after_s.saturating_add(1);
        let found = format!("{value}, read between {before_s} s and {after_s} s");
        (found, ns.is_some_and(|ns| around.contains(&(ns / 1_000_000_000))))
    }));
    checks
}

/// A clock went on: it was read again some 1 ms after its first reading, from which each counter
/// counts. And the cost of a reading was measured.
fn is_read(clock: &str, lines: &[String]) -> Check {
    Check::of(&format!("lab: {clock} keeps counting"), value(lines, clock), |value| {
        let figures = value.split_once(" ns, ").and_then(|(ns, cost)| {
            let (cycles, _) = cost.split_once(" cycles")?;
            Some((ns.parse::<u64>().ok()?, cycles.parse::<u64>().ok()?))
        });
        let went_on = figures.is_some_and(|(ns, cycles)| GONE_ON_NS.contains(&ns) && cycles > 0);
        (value.to_owned(), went_on)
    })
}

/// A line's value. Detection comes before readings, so a clock may have two lines: the last one
/// counts.
fn value<'a>(lines: &'a [String], name: &str) -> Result<&'a str, String> {
    let mut values = lines.iter().filter_map(|line| line.split_once(": "));
    let found = values.rfind(|(found, _)| *found == name);
    found.map(|(_, value)| value).ok_or_else(|| format!("no line of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "SeaBIOS\nBooting from ROM..parachron guest report 1\n\
        hypervisor: Other\n\
        kvm-clock: false (stable: false)\n\
        tsc: 1135342 ns, 31 cycles a read, bare tsc 28\n\
        kvm-clock: not there (NoSuchClock)\n\
        hyperv-page: not there (NoSuchClock)\n\
        hyperv-counter: not there (NoSuchClock)\n\
        acpi_pm: 1000314 ns, 180 cycles a read, bare tsc 29\n\
        hpet: 1000310 ns, 474 cycles a read, bare tsc 30\n\
        rtc: 1795249206000000000 ns\n\
        parachron guest report ends\n";

    fn failing(output: &str) -> Vec<String> {
        let checks = checks(&lines(output).unwrap(), (1_795_249_205, 1_795_249_206));
        assert_eq!(checks.len(), 7);
        let line = |check: &Check| format!("{}: {}", check.what, check.found);
        checks.iter().filter(|check| !check.passed).map(line).collect()
    }

    #[test]
    fn a_sound_report_passes() {
        assert!(failing(REPORT).is_empty(), "{:?}", failing(REPORT));
    }

    #[test]
    fn each_fault_breaks_its_check() {
        for (from, to, expected) in [
            (
                "hpet: 1000310 ns, 474 cycles a read, bare tsc 30",
                "hpet: not there (x)",
                "not there (x)",
            ),
            (
                "acpi_pm: 1000314 ns, 180",
                "acpi_pm: 1000314 ns, 0",
                "acpi_pm keeps counting: 1000314 ns, 0 cycles",
            ),
            ("acpi_pm: 1000314 ns", "pm: 1 ns", "acpi_pm keeps counting: no line of acpi_pm"),
            // A counter that stands.
            ("hpet: 1000310 ns", "hpet: 0 ns", "hpet keeps counting: 0 ns"),
            ("hyperv-page: not there (NoSuchClock)", "hyperv-page: 5 ns", "not claimed: 5 ns"),
            ("rtc: 1795249206", "rtc: 1795249208", "1795249208000000000 ns, read between"),
            ("rtc: 1795249206000000000 ns", "rtc: not there (Unreadable)", "(Unreadable)"),
        ] {
            assert!(REPORT.contains(from), "{from}");
            let failing = failing(&REPORT.replace(from, to));
            assert_eq!(failing.len(), 1, "{failing:?}");
            assert!(failing[0].contains(expected), "{expected:?} is not in {failing:?}");
        }
    }

    #[test]
    fn a_truncated_report_is_an_error() {
        assert_eq!(lines("").unwrap_err(), format!("the guest image did not print {FIRST:?}"));
        let cut = &REPORT[..REPORT.find("rtc").unwrap()];
        assert!(lines(cut).unwrap_err().contains("stopped before"), "{cut}");
    }
}
