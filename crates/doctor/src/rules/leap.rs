//! Leap seconds: one to come, and whether the kernel has the TAI offset.

use facts::steering::{Adjtimex, TimeKeeperKind};

use crate::case::{Case, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome, Skipped};
use crate::remedies;

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
        return Outcome::fine("none scheduled");
    }
    if inserted && deleted {
        return Err(Skipped::CouldNot(
            "contradiction: an insertion and a deletion at once".to_owned(),
        ));
    }
    let (what, effect) = if inserted {
        (
            "The kernel will insert a leap second at the end of this day (UTC)",
            "CLOCK_REALTIME will repeat the last second before midnight UTC: programs that \
             subtract its values can get negative intervals.",
        )
    } else {
        (
            "The kernel will delete a second at the end of this day (UTC)",
            "CLOCK_REALTIME will skip the last second before midnight UTC.",
        )
    };
    let mut finding = Finding::new(Severity::Warning, what)
        .evidence(format!("adjtimex: status {:#06x}", state.status));
    if !leap_status.is_empty() {
        finding = finding.evidence(format!("chronyc tracking: leap status {leap_status}"));
    }
    finding
        .why(format!(
            "{effect} The last leap second was at the end of 2016: this may be a false alarm of a \
             time server."
        ))
        .remedy(Remedy::advice("Check the official announcement, IERS Bulletin C."))
        .remedy(
            remedies::chrony_line(case, "With chrony: slew the clock instead.", "leapsecmode slew")
                .changes("chrony's configuration: the clock slews and does not jump"),
        )
        .alone()
}

/// `tai-offset`
pub(crate) fn tai(case: &Case<'_>) -> Check {
    let Some(state) = case.facts.steering.adjtimex.known() else {
        return Err(why_not(&case.facts.steering.adjtimex));
    };
    if state.tai_s != 0 {
        return Outcome::fine(format!("TAI minus UTC: {} s", state.tai_s));
    }
    if state.has(Adjtimex::STA_UNSYNC) {
        return Outcome::fine("not set, as no daemon disciplines the clock: CLOCK_TAI shows UTC");
    }
    let able = [
        TimeKeeperKind::Chrony,
        TimeKeeperKind::Ntpd,
        TimeKeeperKind::NtpdRs,
        TimeKeeperKind::LinuxPtp,
    ];
    if case.running(&able).is_empty() {
        return Outcome::fine("not set: the running daemon cannot set it; CLOCK_TAI shows UTC");
    }
    Finding::new(Severity::Note, "CLOCK_TAI shows UTC: the kernel has no TAI offset")
        .evidence("adjtimex: tai 0 s; right since 2017: 37 s")
        .why(
            "It affects only programs that read CLOCK_TAI: PTP, some radio and media stacks, \
             time-based packet schedulers (ETF, TAPRIO).",
        )
        .remedy(
            remedies::chrony_line(
                case,
                "With chrony: name the table of leap seconds.",
                "leapsectz right/UTC",
            )
            .changes("chrony's configuration; chronyd then sets the offset"),
        )
        .alone()
}

#[cfg(test)]
mod tests;
