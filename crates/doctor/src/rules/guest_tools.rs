//! Guest tools that set the clock, alone or beside a time daemon.

use facts::kernel::version::KernelVersion;
use facts::steering::TimeKeeperKind;

use super::steering::{BY_ADJTIME, DAEMONS, names};
use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

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
