//! Leap seconds: one to come, and whether the kernel has the TAI offset.

use facts::hardware::PhcTime;
use facts::kernel::LogEvent;
use facts::steering::chrony_config::{self, RefClock};
use facts::steering::{Adjtimex, TimeKeeperKind};
use instruments::figures;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};

/// `leap-second`
pub(crate) fn check_armed(case: &Case<'_>) -> Check {
    let leap_status = case.tracking().map_or("", |tracking| tracking.leap_status.as_str());
    let state = case.adjtimex_with(&["state"])?;
    // timex's TIME_OOP and TIME_WAIT: in it, and after it.
    if matches!(state.state, 3 | 4) {
        return Outcome::fine("the leap second has just passed");
    }
    let flagged = state.has(Adjtimex::STA_INS) || state.has(Adjtimex::STA_DEL);
    if flagged && let Some(passed) = describe_passed(case, state)? {
        return Outcome::fine(passed);
    }
    let inserted = state.has(Adjtimex::STA_INS) || leap_status == "Insert second";
    let deleted = state.has(Adjtimex::STA_DEL) || leap_status == "Delete second";
    if !inserted && !deleted {
        return Outcome::fine("none scheduled");
    }
    let mode = case.chrony_config().and_then(|config| config.leap_mode.as_deref());
    if !flagged && mode == Some("slew") {
        return Outcome::fine("one is announced, and chronyd slews it (leapsecmode slew)");
    }
    if inserted && deleted {
        return Err(Skipped::CouldNot(
            "contradiction: leap-second insertion and deletion are both scheduled".to_owned(),
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
        .explain(format!(
            "{effect} The last leap second was at the end of 2016: a time server may announce this \
             one by mistake."
        ))
        .remedy(Remedy::advice(
            "Check the official announcement, IERS Bulletin C (https://datacenter.iers.org).",
        ))
        .remedies(case.chrony_config().map(|_| {
            remedies::chrony_line(case, "Slew the clock instead.", "leapsecmode slew")
                .changes("chrony's configuration: the clock slews instead of jumping")
        }))
        .alone()
}

/// Of a leap second that STA_INS or STA_DEL announces: whether it has passed.
/// The flag stays until a daemon clears it, and on a clock that is not
/// synchronised adjtimex returns TIME_ERROR (5), which hides TIME_WAIT
/// (kernel/time/ntp.c, `second_overflow` and `__do_adjtimex`).
fn describe_passed(case: &Case<'_>, state: &Adjtimex) -> Result<Option<String>, Skipped> {
    const TIME_ERROR: i32 = 5;
    if state.state != TIME_ERROR {
        return Ok(None);
    }
    let Ok(_) = case.log() else {
        return Err(Skipped::CouldNot(
            "adjtimex announces a leap second; whether it has passed cannot be checked, because \
             the kernel log is not readable"
                .to_owned(),
        ));
    };
    // Of the other kind: another leap second, and this one is to come.
    let verb = if state.has(Adjtimex::STA_INS) { "inserting" } else { "deleting" };
    let lines = case.logged(|event| *event == LogEvent::LeapSecond);
    let line = lines.filter(|line| line.text.contains(verb)).last();
    Ok(line.filter(|line| case.is_recent(line)).map(|line| {
        let since =
            case.age_s(line).map_or_else(String::new, |s| format!(" {} ago", figures::seconds(s)));
        let tai = if state.tai_s == 0 {
            String::new()
        } else {
            format!("; TAI − UTC is now {} s", state.tai_s)
        };
        format!("it has passed{since}, and its flag is still set{tai}")
    }))
}

/// `tai-offset`
pub(crate) fn check_tai(case: &Case<'_>) -> Check {
    let state = case.adjtimex_with(&["tai"])?;
    if state.tai_s != 0 {
        return Outcome::fine(format!("TAI minus UTC: {} s", state.tai_s));
    }
    if state.has(Adjtimex::STA_UNSYNC) {
        return Outcome::fine(
            "not set, because no daemon disciplines the clock: CLOCK_TAI returns UTC",
        );
    }
    let able = [TimeKeeperKind::Chrony, TimeKeeperKind::Ntpd, TimeKeeperKind::LinuxPtp];
    let running = case.running(&able);
    if running.is_empty() {
        return Outcome::fine("not set: the running daemon cannot set it; CLOCK_TAI returns UTC");
    }
    perhaps(case.vendor())?;
    perhaps(case.phcs())?;
    if let Some(who) = smearing(case) {
        return Outcome::fine(format!(
            "not set: {who} smears leap seconds, and clients of such servers must not use a \
             leap-second table (chrony.conf(5), leapseclist)"
        ));
    }
    let finding =
        Finding::new(Severity::Note, "CLOCK_TAI returns UTC: the kernel has no TAI offset")
            .evidence("adjtimex: tai 0 s; correct since 2017: 37 s")
            .explain(
                "Only programs that read CLOCK_TAI are affected: PTP, some radio and media stacks, \
                 time-based packet schedulers (ETF, TAPRIO).",
            );
    if running.iter().all(|keeper| keeper.kind == TimeKeeperKind::Ntpd) {
        return finding.remedy(remedies::ntpd_leapfile(case)).alone();
    }
    let [by_zone, listed] = remedies::tai_table(case);
    finding.remedy(by_zone).remedy(listed).alone()
}

/// Who smears leap seconds for this machine: a server or PTP clock of chronyd's,
/// or where its configuration is not readable, the cloud whose own servers do.
fn smearing(case: &Case<'_>) -> Option<String> {
    let name = case.tracking().map_or("", |tracking| tracking.reference.as_str());
    if chrony_config::smears(name) {
        return Some(name.to_owned());
    }
    if let Some(config) = case.chrony_config() {
        let server =
            config.servers.iter().find(|server| server.smears).map(|server| server.name.clone());
        return server.or_else(|| {
            let smears = |line: &&RefClock| {
                case.phc_named(line).is_some_and(|phc| case.phc_time(phc) == PhcTime::SmearedUtc)
            };
            config.phcs().find(smears).map(|line| line.parameter.clone())
        });
    }
    let cloud = ["Amazon EC2", "Google"].into_iter().find(|cloud| case.is_vendor(cloud))?;
    Some(format!("{cloud}'s time service"))
}

#[cfg(test)]
mod tests;
