//! Which daemons discipline the clock: none, one, or several.

use facts::kernel::LogEvent;
use facts::kernel::version::KernelVersion;
use facts::steering::{Adjtimex, ChronyTracking, TimeKeeper, TimeKeeperKind};

use crate::case::{Case, adjtimex_evidence, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome, Skipped, perhaps};
use crate::remedies;
use crate::text;

/// Daemons that discipline the system clock by a network or a reference clock, and tell the
/// kernel that it is synchronised.
/// Keep waits while another of them runs, so it is not among those that fight.
const DAEMONS: [TimeKeeperKind; 6] = [
    TimeKeeperKind::Chrony,
    TimeKeeperKind::Ntpd,
    TimeKeeperKind::SystemdTimesyncd,
    TimeKeeperKind::NtpdRs,
    TimeKeeperKind::Openntpd,
    TimeKeeperKind::Clockbound,
];

/// Daemons that discipline it too, by `adjtime` (src/ntp.c of connman, htpdate.c), which
/// leaves STA_UNSYNC as it is (`process_adj_status`, kernel/time/ntp.c).
const BY_ADJTIME: [TimeKeeperKind; 2] = [TimeKeeperKind::Connman, TimeKeeperKind::Htpdate];

fn names(keepers: &[&TimeKeeper]) -> Vec<&'static str> {
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
            return Err(Skipped::CouldNot(
                "a container has its host's clock, and the host's time daemon is not visible here: \
                 run doctor on the host"
                    .to_owned(),
            ));
        }
        return undisciplined(case, adjtimex, keepers).alone();
    };
    if daemon.kind == TimeKeeperKind::Chrony && tracking.is_none() {
        // Without `rtcsync` chronyd leaves STA_UNSYNC set (chrony.conf(5)).
        let why = case.tracking().err().map_or_else(String::new, |why| why.to_string());
        return Err(Skipped::CouldNot(format!(
            "chronyd runs, but does not report its state ({why})"
        )));
    }
    if synchronised.is_none() && tracking.is_none() {
        case.adjtimex()?;
    }
    // A daemon takes a few minutes after boot; a capture may lack the uptime.
    perhaps(case.uptime_s())?;
    if case.just_booted() {
        return Outcome::fine(format!("{} has just started", daemon.kind.program()));
    }
    searching(daemon, adjtimex, tracking).alone()
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

fn undisciplined(case: &Case<'_>, adjtimex: Option<&Adjtimex>, keepers: &[TimeKeeper]) -> Finding {
    let mut finding = Finding::new(Severity::Warning, "No time daemon disciplines this clock")
        .evidence_from(adjtimex.map(adjtimex_evidence));
    let installed: Vec<_> = keepers
        .iter()
        .filter(|keeper| keeper.installed)
        .filter(|keeper| DAEMONS.contains(&keeper.kind) || BY_ADJTIME.contains(&keeper.kind))
        .map(|keeper| keeper.kind.program())
        .collect();
    finding = finding.evidence(match installed.as_slice() {
        [] if case.in_container() => "no time daemon visible in this container".to_owned(),
        [] => "no time daemon installed or running".to_owned(),
        some => format!("installed, not running: {}", some.join(", ")),
    });
    if let Some(line) = case.logged(|event| *event == LogEvent::Restored).last() {
        finding = finding.evidence(log_evidence(line));
    }
    finding = finding.evidence_from(keepers.iter().filter_map(|keeper| why_not(case, keeper)));
    if let Some(behind) = case.behind_rtc() {
        finding = finding.evidence(format!("the RTC is {behind} ahead of the clock"));
        if installed.contains(&"ntpd") && case.rtc_minus_system_s().is_ok_and(|off_s| *off_s > 1000)
        {
            finding = finding.evidence("ntpd ends if the clock is more than 1000 s off (ntpd(8))");
        }
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
    daemon: &TimeKeeper,
    adjtimex: Option<&Adjtimex>,
    tracking: Option<&ChronyTracking>,
) -> Finding {
    let daemon_name = daemon.kind.program();
    let mut finding =
        Finding::new(Severity::Warning, format!("{daemon_name} runs, but has no time source"))
            .evidence_from(adjtimex.map(adjtimex_evidence));
    if daemon.unit.is_some() {
        finding = finding.evidence(format!("running: {}", text::list(&with_units(&[daemon]))));
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
    finding
        .explain("Until it reaches a server the clock runs free, and no other symptom shows it.")
        .remedy(Remedy::command(check, command).changes(remedies::READ_ONLY))
}

/// `one-daemon`
pub(crate) fn check_one_daemon(case: &Case<'_>) -> Check {
    case.keepers()?;
    let mut running = case.running(&DAEMONS);
    running.extend(case.running(&BY_ADJTIME));
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

/// VBoxService slews what is below its threshold (VBoxServiceTimeSync.cpp): 0.5 ms a second.
fn left_behind(case: &Case<'_>, behind: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("VBoxService leaves this clock {behind} behind its host"),
    )
    .wrong_now()
    .evidence(format!("running: VBoxService; the RTC is {behind} ahead of the clock"))
    .evidence_from(case.unmet_condition("systemd-timesyncd").map(|condition| {
        format!("systemd-timesyncd.service: {condition}, so it does not start beside VBoxService")
    }))
    .explain(
        "VBoxService steps the clock only if it is off by its threshold, 20 minutes. Below, it \
             slews by adjtime, 0.5 ms a second: 20 days for a quarter of an hour.",
    )
    .remedy(
        Remedy::command(
            "Set the threshold to a second, on the host.",
            "VBoxManage guestproperty set NAME \
                 /VirtualBox/GuestAdd/VBoxService/--timesync-set-threshold 1000",
        )
        .changes("this guest's VBoxService, from its next start on"),
    )
}

/// Since then hv_utils shows the host's time as a PTP device. Before, it set the clock to each of
/// the host's samples, every 5 s (3716a49a81ba, "hv_utils: implement Hyper-V PTP source").
const HAS_PTP: KernelVersion = KernelVersion { major: 4, minor: 11 };

fn fights_hv_utils(case: &Case<'_>, daemon: &str) -> Finding {
    Finding::new(Severity::Warning, format!("hv_utils and {daemon} both set the clock"))
        .evidence(format!("running: hv_utils, {daemon}; Linux {}", case.release().unwrap_or_default()))
        .explain(
            "Before Linux 4.11 hv_utils steps the clock to the time of Hyper-V's host every 5 s. The \
             time daemon then learns a wrong frequency.",
        )
        .remedies(remedies::unbind_hyperv_sync(case))
        .remedy(Remedy::advice(
            "Update the kernel to 4.11 or later, which shows the host's time as a PTP device.",
        ))
}

/// `guest-tools`
pub(crate) fn check_guest_tools(case: &Case<'_>) -> Check {
    case.keepers()?;
    let mut daemons = case.running(&DAEMONS);
    daemons.extend(case.running(&BY_ADJTIME));
    let mut tools = case.running(&[TimeKeeperKind::VirtualBoxService]);
    let is_old = case.release().ok().and_then(KernelVersion::parse).is_some_and(|it| it < HAS_PTP);
    if is_old {
        tools.extend(case.running(&[TimeKeeperKind::HypervUtils]));
    }
    if let (Some(behind), [_, ..], []) = (case.behind_rtc(), tools.as_slice(), daemons.as_slice()) {
        return left_behind(case, &behind).alone();
    }
    if !tools.is_empty() && daemons.is_empty() {
        case.rtc_minus_system_s()
            .map_err(|_| Skipped::CouldNot("no RTC shows whether its clock is right".to_owned()))?;
    }
    let (Some(daemon), Some(tool)) = (daemons.first(), tools.first()) else {
        // These set the clock after a pause or on request, and do not discipline
        // it: drivers/hv/hv_util.c (ICTIMESYNCFLAG_SYNC),
        // qemu-ga's guest-set-time, and vmtoolsd whose periodic
        // synchronisation is off by default.
        let occasional = case.running(&[
            TimeKeeperKind::VmwareTools,
            TimeKeeperKind::QemuGuestAgent,
            TimeKeeperKind::GoogleGuestAgent,
            TimeKeeperKind::HypervUtils,
        ]);
        return Outcome::fine(match occasional.as_slice() {
            [] => "no guest tools compete with a time daemon for the clock".to_owned(),
            some => format!(
                "{}: sets the clock only after pauses, unless configured otherwise",
                names(some).join(", ")
            ),
        });
    };
    let is_hyperv = tool.kind == TimeKeeperKind::HypervUtils;
    let (daemon, tool) = (daemon.kind.program(), tool.kind.program());
    if is_hyperv {
        return fights_hv_utils(case, daemon).alone();
    }
    Finding::new(Severity::Warning, format!("{tool} and {daemon} both set the clock"))
        .evidence(format!("running: {tool}, {daemon}"))
        .explain(
            "VBoxService compares the clock with the host's every 10 s and corrects it if it is \
             100 ms off, by a step if far off. The time daemon then learns a wrong frequency.",
        )
        .remedy(
            Remedy::command(
                format!(
                    "Keep {daemon}. On the host, with the VM off, stop VBoxService from setting \
                     the clock:"
                ),
                "VBoxManage setextradata NAME \
                 VBoxInternal/Devices/VMMDev/0/Config/GetHostTimeDisabled 1",
            )
            .changes(
                "the VM from its next start on; after a saved state only the daemon steps the \
                 clock",
            ),
        )
        .alone()
}

#[cfg(test)]
mod tests;
