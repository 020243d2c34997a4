//! A machine that did not get through, or whose kernel gave up its TSC, because this system
//! was too busy to emulate it: its row has a check that was not measured, with the figures.
//! The same failure on a system that was not busy is a failure.

use std::time::{Duration, Instant};

use crate::boot::Cause;
use crate::checks::{Check, Verdict};
use crate::deeds::Place;
use crate::load::{Load, Need};
use crate::outcome::{Failure, Result};
use crate::table::{Base, Truth};

/// A limit is at least twice what a machine needs that has a CPU whenever it wants one.
const OF_LIMIT: u32 = 2;

/// A virtual CPU of the emulator that stands for as long in the middle of what another CPU
/// waits for is seen by no real CPU: five ticks of a kernel with CONFIG_HZ=250.
const FIVE_TICKS: Duration = Duration::from_millis(20);

/// The kernel gives up a TSC whose readings were late by this (WATCHDOG_MAX_SKEW,
/// kernel/time/clocksource.c: 100 µs), so each wait as long may be why.
const WATCHDOG: Need = Need::Prompt(Duration::from_micros(100));

/// The words of each line by which kernels report it: `Marking clocksource 'tsc' as unstable`,
/// `read-back delay of …, marking tsc unstable` (kernel/time/clocksource.c), `Marking TSC
/// unstable` (arch/x86/kernel/tsc.c).
const MARKED: [&str; 3] = ["marking", "tsc", "unstable"];

const RULE: &str = "tsc-marked-unstable";

/// The kernel's own log, by busybox: the console shows nothing of it once the first program runs.
pub(super) const LOG: &str = "dmesg | grep -i marking; true";

/// Replaces a failure by a check that was not measured, where this system was too busy.
pub(super) fn excuse(
    place: &Place<'_>,
    checks: &mut Vec<Check>,
    worked: Result<(), Failure>,
) -> Result<(), Failure> {
    let (Err(Failure::Failed(why)), Some(cause)) = (&worked, place.start.cause()) else {
        return worked;
    };
    let now = Instant::now();
    let since = match cause {
        Cause::Late(limit) => now.checked_sub(limit).unwrap_or(now),
        Cause::Died(_) => place.begun,
    };
    let is_emulated = place.row.base != Base::Uml;
    match unmeasured(why, cause, is_emulated, &place.meter.since(since)) {
        Some(check) => {
            checks.push(check);
            Ok(())
        }
        None => worked,
    }
}

/// A check of a machine that did not get through; none where it had what it needs.
fn unmeasured(why: &str, cause: Cause, is_emulated: bool, load: &Load) -> Option<Check> {
    let (what, found, need) = match cause {
        Cause::Late(limit) => {
            let first = why.lines().next().unwrap_or_default().to_owned();
            ("boot: the machine answers in time", first, Need::Cpu(limit / OF_LIMIT))
        }
        // User-mode Linux runs on this system's CPUs, as any program does.
        Cause::Died(_) if !is_emulated => return None,
        Cause::Died(lines) => {
            let what = "boot: the emulated kernel does not die";
            (what, format!("the emulated kernel died: {lines}"), Need::Prompt(FIVE_TICKS))
        }
    };
    let mut check = Check::new(what, found, false).needing(need);
    check.settle(load);
    (check.verdict() == Verdict::NotMeasured).then_some(check)
}

/// Whether the kernel gave up the TSC because this system was busy. The row's truth is not that
/// machine's then, and the checks that failed were not measured.
pub(super) fn lost_its_tsc(
    truth: &Truth,
    checks: &mut [Check],
    load: &Load,
    log: impl FnOnce() -> Result<String, String>,
) -> bool {
    let is_expected = truth.findings.iter().any(|finding| finding.contains(RULE));
    if truth.clocksource != "tsc" || is_expected || !checks.iter().any(Check::is_wrong) {
        return false;
    }
    // A machine that does not answer shows nothing; its checks stay.
    let log = log().unwrap_or_default();
    let reports = |line: &&str| {
        let line = line.to_lowercase();
        MARKED.iter().all(|word| line.contains(word))
    };
    let Some(line) = log.lines().find(reports) else { return false };
    let Some(shortage) = load.shortage(WATCHDOG) else { return false };
    let why = format!("{shortage}; the kernel gave up its TSC: {}", line.trim());
    for check in checks.iter_mut().filter(|check| check.is_wrong()) {
        check.not_measured = Some(why.clone());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Of 90 s it waited for 60, at most 0.3 s at once; and of 90 for none.
    const BUSY: Load = Load::busy(ms(90_000), ms(60_000), ms(300));
    const CALM: Load = Load::busy(ms(90_000), ms(90), Duration::from_micros(90));

    #[test]
    fn a_machine_that_had_its_cpu_is_late_for_another_reason() {
        let check =
            |load| unmeasured("no reads within 90 s\nx", Cause::Late(ms(90_000)), true, load);
        let busy = check(&BUSY).unwrap();
        assert_eq!(busy.found, "no reads within 90 s");
        let why = busy.not_measured.as_ref().unwrap();
        assert!(why.starts_with("busy: waited 60.0 of 90.0 s for a CPU"), "{why}");
        assert_eq!(check(&CALM), None, "it hung");
        assert_eq!(check(&Load::busy(ms(90_000), ms(45_000), ms(300))), None, "it had a half");
    }

    #[test]
    fn only_an_emulated_kernel_dies_of_the_load() {
        let died = || Cause::Died("RIP: 0010:ttwu_do_activate".to_owned());
        let check = |is_emulated, load| unmeasured("panicked", died(), is_emulated, load);
        let busy = check(true, &BUSY).unwrap();
        assert_eq!(busy.found, "the emulated kernel died: RIP: 0010:ttwu_do_activate");
        assert_eq!(check(true, &CALM), None, "the emulator had its CPU");
        assert_eq!(check(false, &BUSY), None, "it is not emulated");
    }

    #[test]
    fn a_tsc_is_lost_to_the_load_where_the_kernels_log_and_the_load_show_it() {
        let rows = Table::read().unwrap().rows;
        let truth = |name: &str| rows.iter().find(|row| row.name == name).unwrap().truth().unwrap();
        let line = "[    9.1] clocksource: timekeeping watchdog on CPU1: wd-tsc-wd excessive \
            read-back delay of 129000ns, attempt 3, marking tsc unstable\n\
            [    9.2] tsc: Marking TSC unstable due to clocksource watchdog\n";
        let lost = |name, passed, log: &str, load: &Load| {
            let mut checks = [Check::new("clocks: tsc is current", "hpet", passed)];
            let lost = lost_its_tsc(truth(name), &mut checks, load, || Ok(log.into()));
            (lost, checks[0].verdict())
        };
        let skew = "Marking clocksource 'tsc' as unstable because the skew is too large:\n";
        assert_eq!(lost("intel-6.1", false, line, &BUSY), (true, Verdict::NotMeasured));
        assert_eq!(lost("intel-6.1", false, skew, &BUSY), (true, Verdict::NotMeasured));
        assert_eq!(lost("intel-6.1", true, line, &BUSY), (false, Verdict::Passed));
        assert_eq!(lost("intel-6.1", false, "calm\n", &BUSY), (false, Verdict::Failed), "ours");
        assert_eq!(lost("intel-6.1", false, line, &CALM), (false, Verdict::Failed), "not busy");
        let expected = rows.iter().find(|row| {
            row.truth().is_ok_and(|truth| truth.findings.iter().any(|one| one.contains(RULE)))
        });
        let expected = &expected.unwrap().name;
        assert_eq!(lost(expected, false, line, &BUSY), (false, Verdict::Failed), "as the row says");
    }
}
