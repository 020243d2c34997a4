//! Leap seconds: one to come, and whether the kernel knows of those past.

use facts::steering::{Adjtimex, TimeKeeperKind};

use crate::case::{Case, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

/// `leap-second`
pub(crate) fn armed(case: &Case<'_>) -> Check {
    let adjtimex = case.facts.steering.adjtimex.known();
    let leap_status =
        case.facts.steering.chrony.known().map_or("", |tracking| tracking.leap_status.as_str());
    let Some(state) = adjtimex else {
        return Err(why_not(&case.facts.steering.adjtimex));
    };
    // timex's TIME_OOP and TIME_WAIT: in it, and after it.
    if matches!(state.state, 3 | 4) {
        return Outcome::fine("the leap second has just passed");
    }
    let inserted = state.has(Adjtimex::STA_INS) || leap_status == "Insert second";
    let deleted = state.has(Adjtimex::STA_DEL) || leap_status == "Delete second";
    if !inserted && !deleted {
        return Outcome::fine("none armed");
    }
    if inserted && deleted {
        return Err(Skipped::CouldNot("one inserted and one left out at once".to_owned()));
    }
    let (what, effect) = match inserted {
        true => (
            "A leap second will be inserted at the end of this day (UTC)",
            "CLOCK_REALTIME will repeat the last second before midnight UTC, and programs that \
             take differences of it can see time go back.",
        ),
        false => (
            "A leap second will be left out at the end of this day (UTC)",
            "CLOCK_REALTIME will skip the last second before midnight UTC.",
        ),
    };
    let mut finding = Finding::new(Severity::Warning, what)
        .evidence(format!("adjtimex: status {:#06x}", state.status));
    if !leap_status.is_empty() {
        finding = finding.evidence(format!("chronyc tracking: leap status {leap_status}"));
    }
    finding
        .why(format!(
            "{effect} The last leap second was at the end of 2016, so a false alarm from a time \
             server is as likely."
        ))
        .remedy(Remedy::advice("Compare with the official announcement, IERS Bulletin C."))
        .remedy(
            remedies::chrony_line(case, "With chrony, have it spread instead.", "leapsecmode slew")
                .changes("at once and from then on: the clock is slewed and does not jump"),
        )
        .alone()
}

/// `tai-offset`
pub(crate) fn tai(case: &Case<'_>) -> Check {
    let Some(state) = case.facts.steering.adjtimex.known() else {
        return Err(why_not(&case.facts.steering.adjtimex));
    };
    if state.tai_s != 0 {
        return Outcome::fine(format!("TAI − UTC is set: {} s", state.tai_s));
    }
    if state.has(Adjtimex::STA_UNSYNC) {
        return Outcome::fine("not set, and nobody steers the clock who could: CLOCK_TAI is UTC");
    }
    let able = [
        TimeKeeperKind::Chrony,
        TimeKeeperKind::Ntpd,
        TimeKeeperKind::NtpdRs,
        TimeKeeperKind::LinuxPtp,
    ];
    if case.running(&able).is_empty() {
        return Outcome::fine("not set, as systemd-timesyncd and its like leave it: it shows UTC");
    }
    Finding::new(Severity::Note, "CLOCK_TAI is not set up: it shows UTC")
        .evidence("adjtimex: tai 0 s, where 37 s has been right since 2017")
        .why(
            "Only programs that ask for CLOCK_TAI are concerned: PTP, some radio and media \
             stacks, time-based packet schedulers (ETF, TAPRIO).",
        )
        .remedy(
            remedies::chrony_line(
                case,
                "With chrony, name the table of leap seconds.",
                "leapsectz right/UTC",
            )
            .changes("at once and from then on"),
        )
        .alone()
}

#[cfg(test)]
mod tests;
