//! Which daemons discipline the clock: none, one, or several.

use facts::kernel::LogEvent;
use facts::steering::{Adjtimex, ChronyTracking, TimeKeeper, TimeKeeperKind};

use crate::case::{Case, adjtimex_evidence, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};
use crate::text;

/// Daemons that discipline the system clock by a network or a reference clock, and tell the
/// kernel that it is synchronised.
/// Keep waits while another of them runs, so it is not among those that fight.
pub(super) const DAEMONS: [TimeKeeperKind; 6] = [
    TimeKeeperKind::Chrony,
    TimeKeeperKind::Ntpd,
    TimeKeeperKind::SystemdTimesyncd,
    TimeKeeperKind::NtpdRs,
    TimeKeeperKind::Openntpd,
    TimeKeeperKind::Clockbound,
];

/// Daemons that discipline it too, by `adjtime` (src/ntp.c of connman, htpdate.c), which
/// leaves STA_UNSYNC as it is (`process_adj_status`, kernel/time/ntp.c).
pub(super) const BY_ADJTIME: [TimeKeeperKind; 2] =
    [TimeKeeperKind::Connman, TimeKeeperKind::Htpdate];

pub(super) fn names(keepers: &[&TimeKeeper]) -> Vec<&'static str> {
    keepers.iter().map(|keeper| keeper.kind.program()).collect()
}

/// With the units that they are of, and how sure that is.
fn with_units(keepers: &[&TimeKeeper]) -> Vec<String> {
    let unsure = |keeper: &TimeKeeper| {
        if keeper.by_unit_alone { ", of which only the unit is visible" } else { "" }
    };
    keepers.iter().map(|keeper| keeper.program_and_unit() + unsure(keeper)).collect()
}

/// `clock-steered`
pub(crate) fn check_steered(case: &Case<'_>) -> Check {
    let adjtimex = case.adjtimex().ok();
    let synchronised = adjtimex.map(|state| !state.has(Adjtimex::STA_UNSYNC));
    let tracking = case.tracking().ok();
    if tracking.is_some_and(ChronyTracking::is_own_clock) {
        return follows_itself().alone();
    }
    if let Some(behind) = case.behind_rtc().filter(|_| synchronised == Some(true)) {
        return Err(Skipped::CouldNot(format!(
            "the kernel's flag of a synchronised clock is from before a pause: the RTC is {behind} \
             ahead (rule rtc-off)"
        )));
    }
    if let Some(tracking) = case.followed() {
        // A capture keeps no server's name.
        let reference = match tracking.reference.as_str() {
            "" | "withheld" => "a server",
            name => name,
        };
        return Outcome::fine(format!(
            "chronyd follows {reference} (stratum {})",
            tracking.stratum
        ));
    }
    if synchronised == Some(true) {
        return Outcome::fine("a daemon synchronised the kernel's clock in the last few hours");
    }
    let keepers = case.keepers()?;
    let mut running = case.running(&DAEMONS);
    running.extend(case.running(&[TimeKeeperKind::ParachronKeep]));
    let Some(daemon) = running.first() else {
        // Guest tools and PTP do not clear STA_UNSYNC.
        let mut others = case.running(&BY_ADJTIME);
        others.extend(case.running(&[TimeKeeperKind::LinuxPtp, TimeKeeperKind::VirtualBoxService]));
        if let (Some(other), Some(behind)) = (others.first(), case.behind_rtc()) {
            let program = other.kind.program();
            return Err(Skipped::CouldNot(format!(
                "{program} runs, and the clock is {behind} behind the RTC (rules rtc-off, guest-tools)"
            )));
        }
        if let Some(other) = others.first() {
            return Outcome::fine(format!("{} runs and sets the clock", other.kind.program()));
        }
        if synchronised.is_none() && case.in_container() {
            return in_container(case, keepers).alone();
        }
        return undisciplined(case, adjtimex, keepers).alone();
    };
    if daemon.kind == TimeKeeperKind::Chrony && tracking.is_none() {
        // Without `rtcsync` chronyd leaves STA_UNSYNC set (chrony.conf(5)).
        let why = match case.tracking() {
            Err(Skipped::Absent(_)) if synchronised == Some(false) => {
                return searching(case, daemon, adjtimex, None).alone();
            }
            Err(why) => why.to_string(),
            Ok(_) => String::new(),
        };
        return Err(Skipped::CouldNot(format!(
            "chronyd runs, but does not report its state ({why})"
        )));
    }
    if synchronised.is_none() && tracking.is_none() && !case.is_offline(daemon.kind) {
        case.adjtimex()?;
    }
    // A daemon takes a few minutes after boot; a capture may lack the uptime.
    perhaps(case.uptime_s())?;
    if case.just_booted() {
        return Outcome::fine(format!("{} has just started", daemon.kind.program()));
    }
    searching(case, daemon, adjtimex, tracking).alone()
}

/// What keeps a program from disciplining the clock.
fn why_not(case: &Case<'_>, keeper: &TimeKeeper) -> Option<String> {
    if keeper.running {
        return None;
    }
    let unit = remedies::unit(case, keeper.kind);
    if keeper.leaves_clock {
        let program = keeper.kind.program();
        return Some(format!(
            "{program} runs and leaves the clock alone: option -x, or no right to set it (container)"
        ));
    }
    let why = match case.unmet_condition(unit) {
        Some("masked") => "it is masked: systemd refuses to start it".to_owned(),
        Some(unmet) => format!("{unmet}, which does not hold here: systemd skips its start"),
        None if case.is_enabled(unit) => {
            "it is enabled and does not run: it failed, ended or was stopped".to_owned()
        }
        None => return None,
    };
    Some(format!("{unit}.service: {why}"))
}

/// `local stratum`: what chronyd serves then is the drift of this machine's quartz.
fn follows_itself() -> Finding {
    Finding::new(
        Severity::Warning,
        "chronyd follows this machine's own clock: no server and no device corrects it",
    )
    .evidence("chronyc tracking: reference 127.127.1.1 (LOCAL)")
    .explain(
        "With `local stratum` chronyd calls itself synchronised while it reaches no source, and its \
         clients believe it. The clock drifts by seconds a week.",
    )
    .remedy(
        Remedy::command("Check why it reaches none of its servers.", "chronyc sources -v")
            .changes(remedies::READ_ONLY),
    )
}

fn installed(keepers: &[TimeKeeper]) -> Vec<&'static str> {
    let daemons = keepers.iter().filter(|keeper| keeper.installed);
    let daemons =
        daemons.filter(|one| DAEMONS.contains(&one.kind) || BY_ADJTIME.contains(&one.kind));
    daemons.map(|keeper| keeper.kind.program()).collect()
}

fn in_container(case: &Case<'_>, keepers: &[TimeKeeper]) -> Finding {
    let installed = installed(keepers);
    let finding = Finding::new(
        Severity::Note,
        "This container has the clock of its host, and nothing here sets it",
    )
    .evidence_from(case.container().ok().map(|kind| format!("container: {kind}")))
    .evidence_from(
        (!installed.is_empty())
            .then(|| format!("installed, not running: {}", text::list(&installed))),
    )
    .evidence_from(keepers.iter().filter_map(|keeper| why_not(case, keeper)));
    finding
        .explain(
            "The containers of a machine share its kernel's clock. A time daemon in one of them has \
             no right to set it, and is not needed: whether the time is right shows on the host.",
        )
        .remedy(Remedy::advice(
            "Run parachron doctor and a time daemon on the host, and no time daemon in here.",
        ))
}

fn undisciplined(case: &Case<'_>, adjtimex: Option<&Adjtimex>, keepers: &[TimeKeeper]) -> Finding {
    let mut finding = Finding::new(Severity::Warning, "No time daemon disciplines this clock")
        .evidence_from(adjtimex.map(adjtimex_evidence));
    let installed = installed(keepers);
    finding = finding.evidence(match installed.as_slice() {
        [] if case.in_container() => "no time daemon visible in this container".to_owned(),
        [] => "no time daemon installed or running".to_owned(),
        some => format!("installed, not running: {}", some.join(", ")),
    });
    if let Some(line) = case.logged(|event| *event == LogEvent::Restored).last() {
        finding = finding.evidence(log_evidence(line));
    }
    finding = finding.evidence_from(keepers.iter().filter_map(|keeper| why_not(case, keeper)));
    finding = finding.evidence_from(case.rtc_differs());
    if case.rtcs().is_ok_and(|all| !all.is_empty() && all.iter().all(|rtc| !rtc.hctosys)) {
        finding = finding.evidence("the RTC did not set the clock at this boot (hctosys 0)");
    }
    let is_far = case.rtc_minus_system_s().is_ok_and(|off_s| *off_s > 1000);
    if is_far && installed.contains(&"ntpd") && case.behind_rtc().is_some() {
        finding = finding.evidence("ntpd ends if the clock is more than 1000 s off (ntpd(8))");
    }
    finding
        .explain(
            "A free-running clock drifts by seconds a week, and loses the whole pause at a \
             suspend, a snapshot restore or a migration. Certificates, databases and logs from \
             several machines depend on it.",
        )
        .remedies(remedies::run_time_daemon(case))
        .remedies_by_phc(case)
        .remedies_by_tools(case)
}

impl Finding {
    /// Where the host's clock is available, it is the best source.
    fn remedies_by_phc(self, case: &Case<'_>) -> Self {
        let Some(phc) = case.host_phcs().next() else { return self };
        self.remedies(remedies::start_following_host(case, phc))
    }

    /// VMware Tools set the clock if configured to, and do not report it.
    fn remedies_by_tools(self, case: &Case<'_>) -> Self {
        if case.running(&[TimeKeeperKind::VmwareTools]).is_empty() {
            return self;
        }
        self.remedy(
            Remedy::command(
                "Check whether VMware Tools set the clock; if they do, only its accuracy is at \
                 risk.",
                "vmware-toolbox-cmd timesync status",
            )
            .changes(remedies::READ_ONLY),
        )
    }
}

fn searching(
    case: &Case<'_>,
    daemon: &TimeKeeper,
    adjtimex: Option<&Adjtimex>,
    tracking: Option<&ChronyTracking>,
) -> Finding {
    let daemon_name = daemon.kind.program();
    let is_offline = case.is_offline(daemon.kind);
    let what = if tracking.is_some() || is_offline || daemon.kind == TimeKeeperKind::ParachronKeep {
        format!("{daemon_name} runs, but has no time source")
    } else {
        format!("The kernel counts the clock as not synchronised, although {daemon_name} runs")
    };
    let is_chrony_unasked = daemon.kind == TimeKeeperKind::Chrony && tracking.is_none();
    let severity = if is_chrony_unasked { Severity::Note } else { Severity::Warning };
    let mut finding = Finding::new(severity, what).evidence_from(adjtimex.map(adjtimex_evidence));
    if daemon.unit.is_some() {
        finding = finding.evidence(format!("running: {}", text::list(&with_units(&[daemon]))));
    }
    if is_offline {
        finding = finding.evidence("/run/systemd/netif/state: offline; then it asks no server");
    }
    if let Some(tracking) = tracking {
        finding = finding.evidence(format!(
            "chronyc tracking: stratum {}, leap status {}",
            tracking.stratum, tracking.leap_status
        ));
    }
    let command = match daemon.kind {
        TimeKeeperKind::Chrony => "chronyc sources -v",
        TimeKeeperKind::SystemdTimesyncd => "timedatectl timesync-status",
        TimeKeeperKind::NtpdRs => "ntp-ctl status",
        TimeKeeperKind::Openntpd => "ntpctl -s all",
        TimeKeeperKind::Clockbound => "journalctl -u clockbound -n 20",
        TimeKeeperKind::ParachronKeep if daemon.unit.is_none() => "parachron status",
        TimeKeeperKind::ParachronKeep => "journalctl -u parachrond -n 20",
        _ => "ntpq -p",
    };
    let check = match daemon.kind {
        TimeKeeperKind::ParachronKeep => {
            "Read its log or status, which names each source that it rejects or cannot reach, with the \
             reason. An RTC alone is not a source of the time of day."
        }
        _ => "Check which servers it polls; UDP port 123 must be open to them.",
    };
    let without_rtcsync = if is_chrony_unasked {
        " chronyd without rtcsync in its configuration leaves the kernel's flag so while it keeps \
         the clock: ask it."
    } else {
        ""
    };
    finding
        .explain(format!(
            "Until it reaches a server the clock runs free, and no other symptom shows it.\
             {without_rtcsync}"
        ))
        .remedy(Remedy::command(check, command).changes(remedies::READ_ONLY))
}

/// A container with CAP_SYS_TIME.
fn sets_the_hosts(program: &str) -> Finding {
    Finding::new(
        Severity::Note,
        format!("{program} in this container sets the clock of its host and of all on it"),
    )
    .evidence(format!("running, with the right to set the clock: {program}"))
    .explain(
        "The host's own time daemon, which is not visible here, corrects the same clock: of two, \
         each corrects the other's corrections.",
    )
    .remedy(Remedy::advice("Run one time daemon, on the host, and none in containers."))
}

/// `one-daemon`
pub(crate) fn check_one_daemon(case: &Case<'_>) -> Check {
    case.keepers()?;
    let mut running = case.running(&DAEMONS);
    running.extend(case.running(&BY_ADJTIME));
    let is_wsl = case.container().is_ok_and(|kind| kind == "wsl");
    if let ([only], true, false) = (running.as_slice(), case.in_container(), is_wsl) {
        return sets_the_hosts(only.kind.program()).alone();
    }
    if running.len() < 2 {
        return Outcome::fine(match running.first() {
            Some(only) => format!("{} only", only.kind.program()),
            None => "none or one".to_owned(),
        });
    }
    let both = text::list(&names(&running));
    let keep = if running.iter().any(|keeper| keeper.kind == TimeKeeperKind::Chrony) {
        "chronyd"
    } else {
        running[0].kind.program()
    };
    let mut finding =
        Finding::new(Severity::Warning, format!("{both} discipline the clock at the same time"))
            .evidence(format!("running: {}", text::list(&with_units(&running))))
            .explain(
                "Each corrects the other's corrections: the clock oscillates, and both report that \
             they are synchronised.",
            );
    let others = running.iter().filter(|keeper| keeper.kind.program() != keep);
    let stop = others.map(|other| {
        let what = format!("Keep {keep}, stop {}.", other.kind.program());
        remedies::service(case, what, false, remedies::unit(case, other.kind))
            .changes("that daemon, at once and after a reboot")
    });
    finding = finding.remedies(remedies::in_order(stop.collect()));
    finding.alone()
}

#[cfg(test)]
mod tests;
