//! What a busy or slow system may make `doctor` find in any row (the table's list `busy`), held
//! to a witness. The TSC's rate is this system's, which is measured here; the rate that the
//! kernel assumes, and what its watchdog wrote, are in its own log; what a read of the clock
//! costs is measured by another program in the same machine.

use crate::checks::{self, Check, Outputs};
use crate::deeds::{Place, vmclock};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::table::{Base, Read};

/// What the kernel writes of the TSC's rate, and of a late check of its clocks
/// (arch/x86/kernel/tsc.c; clocksource_watchdog in kernel/time/clocksource.c).
const LOG: &str = "dmesg | grep -E 'tsc: |clocksource' || true";

/// The rate that the kernel found at boot, and a better one that it found later: the last
/// is in use.
const STATED: [&str; 2] = ["tsc: Detected ", "tsc: Refined TSC clocksource calibration: "];

/// What its watchdog writes of a check that it could not make in time.
const LATE: [&str; 4] =
    ["read-back delay", "read timed out", "times before success", "kipping watchdog check"];

/// Beyond what a rate is wrong, as NTP cannot correct more, ppm.
const WRONG_PPM: f64 = 500.0;

/// How well `doctor` measures in a fraction of a second on a busy system, ppm.
const KNOWN_PPM: f64 = 100.0;

/// The TSC's rate where QEMU counts instructions: that of its virtual clock
/// (cpu_get_ticks, softmmu/cpu-timers.c).
const COUNTED_HZ: f64 = 1e9;

/// Clock sources that are not the TSC, and have this system's rate: `doctor` can see the
/// TSC's error by them.
const TIMERS: [&str; 2] = ["hpet", "acpi_pm"];

/// The rules, as `doctor` names them.
const RATE: &str = "tsc-frequency";
const WATCHDOG: &str = "watchdog-late";
const COST: &str = "read-cost";
const TRAPPED: &str = "tsc-trapped";

/// What a read of a clock source may cost, ns, before `doctor` reports it (the rule's own
/// figures, crates/doctor/src/rules/cost.rs).
const USUAL_NS: [(&str, f64); 6] = [
    ("tsc", 150.0),
    ("kvm-clock", 200.0),
    ("hyperv_clocksource_tsc_page", 200.0),
    ("xen", 1500.0),
    ("hpet", 10_000.0),
    ("acpi_pm", 10_000.0),
];

/// Two programs that measure a read within seconds of each other agree within this factor.
const AGREE: f64 = 2.0;

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    outputs: Outputs<'_>,
) -> Result<Vec<Check>> {
    let log = machine.execute(LOG)?;
    // A report that is none has failed already.
    let Ok(findings) = outputs.stdout("doctor").and_then(checks::findings) else {
        return Ok(Vec::new());
    };
    let found = |rule: &str| findings.iter().any(|finding| finding["rule"] == rule);
    let counts_instructions = place.row.options.contains("-icount");
    // Only where there is something to compare: it takes some seconds.
    let hz = || if counts_instructions { COUNTED_HZ } else { vmclock::tsc_hz() };
    let off_ppm = assumed_hz(&log).map(|assumed_hz| (hz() / assumed_hz - 1.0) * 1e6);
    let sees = TIMERS.contains(&place.row.truth()?.clocksource.as_str());
    let mut checks = vec![rate(found(RATE), off_ppm, sees), late(found(WATCHDOG), &log)];
    let truth = place.row.truth()?;
    // The rule leaves out what runs under TCG, and what another rule explains.
    let judges = !matches!(place.row.base, Base::Emulated | Base::Debian)
        && !found(TRAPPED)
        && (truth.read == Read::User || sees);
    let usual = USUAL_NS.iter().find(|(source, _)| *source == truth.clocksource);
    if let Some((_, usual_ns)) = usual.filter(|_| judges || found(COST)) {
        let witness = machine.execute("guest-clock cost")?;
        let witness = witness.parse().map_err(|_| format!("guest-clock printed {witness:?}"))?;
        checks.push(Some(cost(found(COST), witness, *usual_ns)));
    }
    Ok(checks.into_iter().flatten().collect())
}

/// Found where a read costs more than is usual, and nowhere else; near the limit either is right.
fn cost(found: bool, witness_ns: f64, usual_ns: f64) -> Check {
    let what = format!("doctor: {COST}: {usual_ns:.0} ns are usual, by another program");
    let said = if found { "found" } else { "not found" };
    let text = format!("{said}; a read costs {witness_ns:.0} ns");
    let passed = if found { witness_ns * AGREE > usual_ns } else { witness_ns < usual_ns * AGREE };
    Check::new(what, text, passed)
}

/// The rate that the kernel assumes, Hz.
fn assumed_hz(log: &str) -> Option<f64> {
    let stated = |line: &str| {
        let rest = STATED.iter().find_map(|begin| Some(line.split_once(begin)?.1))?;
        rest.split(' ').next()?.parse::<f64>().ok().filter(|mhz| *mhz > 0.0)
    };
    log.lines().rev().find_map(stated).map(|mhz| mhz * 1e6)
}

/// Found where it is wrong, and nowhere else; between the two either is right.
fn rate(found: bool, off_ppm: Option<f64>, sees: bool) -> Option<Check> {
    let what =
        |is: &str| format!("doctor: {RATE}: {is}, by this system's TSC and the kernel's log");
    let Some(off_ppm) = off_ppm else {
        // Of a kernel that states none nothing can be found.
        return found.then(|| Check::new(what("no rate is stated"), "found", false));
    };
    let wrong = off_ppm.abs() > WRONG_PPM + KNOWN_PPM;
    let right = off_ppm.abs() < WRONG_PPM - KNOWN_PPM;
    let is = if right { "the rate is right" } else { "the rate is wrong" };
    let said = if found { "found" } else { "not found" };
    let text = format!("{said}; the TSC is off by {off_ppm:+.0} ppm");
    let passed = if found { !right } else { !(wrong && sees) };
    Some(Check::new(what(is), text, passed))
}

/// A check that was late is in the log. One that came since is no fault of `doctor`.
fn late(found: bool, log: &str) -> Option<Check> {
    let mut lines = log.lines().filter(|line| line.contains("clocksource"));
    let line = lines.find(|line| LATE.iter().any(|words| line.contains(words)));
    found.then(|| {
        let what = format!("doctor: {WATCHDOG}: the kernel's log has a late check");
        Check::new(what, line.unwrap_or("no such line"), line.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[    0.000000] tsc: Detected 2596.122 MHz processor\n\
        [    1.278751] hpet0: 3 comparators, 64-bit 100.000000 MHz counter\n";

    #[test]
    fn the_rate_in_use_is_the_last_that_the_kernel_stated() {
        assert_eq!(assumed_hz(LOG), Some(2_596_122_000.0));
        let refined = "[    2.4] tsc: Refined TSC clocksource calibration: 2596.106 MHz\n";
        assert_eq!(assumed_hz(&format!("{LOG}{refined}")), Some(2_596_106_000.0));
        assert_eq!(assumed_hz("tsc: Marking TSC unstable\ntsc: Detected nan MHz"), None);
    }

    #[test]
    fn a_wrong_rate_is_found_and_a_right_one_is_not() {
        let passed = |found, off, sees| rate(found, Some(off), sees).unwrap().passed;
        assert!(passed(true, 1200.0, true) && passed(true, -1200.0, true));
        assert!(!passed(true, 20.0, true) && !passed(true, -399.0, true), "a false alarm");
        assert!(passed(false, 20.0, true) && !passed(false, 1200.0, true), "missed");
        assert!(passed(false, 1200.0, false), "there is no other clock to see it by");
        assert!(passed(true, 450.0, true) && passed(false, 550.0, true), "too close to tell");
        assert!(!rate(true, None, true).unwrap().passed && rate(false, None, true).is_none());
    }

    #[test]
    fn a_dear_read_is_found_and_a_usual_one_is_not() {
        let passed = |found, witness_ns| cost(found, witness_ns, 200.0).passed;
        assert!(passed(true, 350.0) && passed(false, 90.0));
        assert!(!passed(true, 90.0), "a false alarm");
        assert!(!passed(false, 450.0), "missed");
        assert!(passed(true, 150.0) && passed(false, 250.0), "too close to tell");
    }

    #[test]
    fn a_late_check_is_in_the_kernels_log() {
        let line = "[  9.1] clocksource: timekeeping watchdog on CPU0: wd-tsc-wd read-back delay \
            of 115000ns, clock-skew test skipped!";
        assert!(late(true, line).unwrap().passed && late(false, line).is_none());
        assert!(!late(true, LOG).unwrap().passed, "no such line");
        assert!(!late(true, "read-back delay").unwrap().passed, "not of the clock sources");
    }
}
