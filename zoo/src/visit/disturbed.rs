//! A machine whose own kernel gave up its TSC, as this system was too busy to emulate it:
//! the row's truth is not that machine's, and what was said of it is not held against it.

use crate::checks::Check;
use crate::outcome::{Failure, Result, Unavailable};
use crate::table::Truth;

/// How often a row is tried.
pub(super) const ATTEMPTS: u32 = 3;

/// The words of each line by which kernels tell it: `Marking clocksource 'tsc' as unstable`,
/// `read-back delay of …, marking tsc unstable` (kernel/time/clocksource.c), `Marking TSC
/// unstable` (arch/x86/kernel/tsc.c).
const MARKED: [&str; 3] = ["marking", "tsc", "unstable"];

const RULE: &str = "tsc-marked-unstable";

/// The kernel's own log, by busybox: the console shows nothing of it once the first program runs.
pub(super) const LOG: &str = "dmesg | grep -i marking; true";

/// After checks that failed: whether the kernel's log shows why.
pub(super) fn refused(
    truth: &Truth,
    checks: &[Check],
    log: impl FnOnce() -> Result<String, String>,
) -> Result<(), Failure> {
    let is_expected = truth.findings.iter().any(|finding| finding.contains(RULE));
    if truth.clocksource != "tsc" || is_expected || checks.iter().all(|check| check.passed) {
        return Ok(());
    }
    // A machine that does not answer shows nothing; its checks stay.
    let log = log().unwrap_or_default();
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        MARKED.iter().all(|word| line.contains(word))
    };
    let Some(line) = log.lines().find(tells) else { return Ok(()) };
    let why = format!("its kernel gave up the TSC, as its log says: {}", line.trim());
    Err(Failure::Disturbed(Unavailable::new(why, "a system that is less busy")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn only_a_tsc_that_should_have_stayed_and_is_told_in_the_log_is_a_disturbance() {
        let rows = Table::read().unwrap().rows;
        let truth = |name: &str| rows.iter().find(|row| row.name == name).unwrap().truth().unwrap();
        let checks = |passed| [Check::new("clocks: tsc is current", "hpet", passed)];
        let line = "[    9.1] clocksource: timekeeping watchdog on CPU1: wd-tsc-wd excessive \
            read-back delay of 129000ns, attempt 3, marking tsc unstable\n\
            [    9.2] tsc: Marking TSC unstable due to clocksource watchdog\n";
        let refuses =
            |name, passed, log: &str| refused(truth(name), &checks(passed), || Ok(log.into()));
        let Err(Failure::Disturbed(Unavailable { why, .. })) = refuses("intel-6.1", false, line)
        else {
            panic!("its truth is another machine's");
        };
        assert!(why.ends_with("attempt 3, marking tsc unstable"), "{why}");
        let skew = "Marking clocksource 'tsc' as unstable because the skew is too large:\n";
        assert!(refuses("intel-6.1", false, skew).is_err());
        assert!(refuses("intel-6.1", true, line).is_ok(), "nothing to excuse");
        assert!(refuses("intel-6.1", false, "calm\n").is_ok(), "ours was wrong");
        let expected = rows.iter().find(|row| {
            row.truth().is_ok_and(|truth| truth.findings.iter().any(|one| one.contains(RULE)))
        });
        assert!(refuses(&expected.unwrap().name, false, line).is_ok(), "as the row says");
    }
}
