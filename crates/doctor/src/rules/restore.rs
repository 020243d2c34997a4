//! Guests that are saved and restored, and machines that sleep: what it does
//! to their clocks.

use facts::cpu::HypervisorKind;
use facts::kernel::{LogEvent, LogLine};
use facts::steering::{Adjtimex, TimeKeeperKind};
use facts::{Fact, Unknown};

use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `snapshot-restore`
///
/// Measured with Firecracker 1.16 and a pause of 60 s: a guest on tsc was 64 s
/// behind after the restore, one on kvm-clock 1 s, with `clock_realtime` set.
pub(crate) fn snapshots(case: &Case<'_>) -> Check {
    let restored: Vec<_> = case.logged(|event| *event == LogEvent::Restored).collect();
    // Other hypervisors bring guest tools that set the clock.
    let restored_by_kvm = !restored.is_empty() && case.kind() == Some(HypervisorKind::Kvm);
    let Some(platform) = case.snapshots().or(restored_by_kvm.then_some("This platform")) else {
        // The signs are in the kernel log and the ACPI tables.
        if case.is_guest() != Some(false) {
            case.log()?;
        }
        return Err(Skipped::DoesNotApply(
            "does not apply: no sign that this machine is saved and restored".to_owned(),
        ));
    };
    let current = case.current()?;
    let follows_host = case.host_phcs().next().is_some()
        && !case.running(&[TimeKeeperKind::Chrony, TimeKeeperKind::LinuxPtp]).is_empty();
    if follows_host {
        return Outcome::fine(
            "a time daemon runs and the host's clock is at hand (PTP): restores are mended",
        );
    }
    if current == "kvm-clock" {
        return Outcome::fine(format!(
            "kvm-clock, which a restore carries on if the host asks for it: {}",
            host_setting(platform)
        ));
    }
    if current != "tsc" {
        return Err(Skipped::CouldNot(format!("no figures for {current} after a restore")));
    }
    finding(case, platform, &restored).alone()
}

fn finding(case: &Case<'_>, platform: &str, restored: &[&LogLine]) -> Finding {
    let mut finding = Finding::new(
        Severity::Warning,
        "After each restored snapshot this clock is behind by the length of the pause",
    )
    .evidence("current_clocksource: tsc");
    if let Some(oem) = case.facts.system.acpi_oem.known() {
        finding = finding.evidence(format!("ACPI tables by {oem}"));
    }
    if let Some(last) = restored.last() {
        finding = finding.evidence(log_evidence(last));
    }
    finding = finding.why(format!(
        "A restore sets the TSC back to its saved value, so a clock on tsc goes on where it \
         stopped, unless something in the guest then sets it. {platform} can carry on kvm-clock \
         only: after a pause of 60 s a guest on tsc \
         was 64 s behind, one on kvm-clock 1 s."
    ));
    if case.offers("kvm-clock") {
        finding = finding
            .remedy(remedies::switch_to(case, "kvm-clock"))
            .remedy(remedies::add_parameter(case, "clocksource=kvm-clock"))
            .remedy(
                Remedy::advice(format!("On the host: {}.", host_setting(platform)))
                    .changes("kvm-clock is carried on; CLOCK_MONOTONIC jumps with it"),
            );
    }
    let has_phc = case.host_phcs().next().is_some();
    finding = with_phc(case, finding);
    if !has_phc && !case.running(&[TimeKeeperKind::Chrony]).is_empty() {
        finding = finding.remedy(remedies::makestep(case));
    }
    finding.remedy(remedies::keep(case))
}

fn host_setting(platform: &str) -> &'static str {
    match platform {
        "Firecracker" => "load snapshots with clock_realtime true (host Linux 5.16 or later)",
        _ => "restore with KVM_SET_CLOCK and its realtime flag (host Linux 5.16 or later)",
    }
}

/// The host's own clock as PTP device mends a restore under any source; a
/// VMClock page tells programs of it but sets no clock.
fn with_phc(case: &Case<'_>, finding: Finding) -> Finding {
    if let Some(phc) = case.host_phcs().next() {
        return finding
            .remedy(remedies::follow_host(case, &phc.device))
            .remedy(remedies::makestep(case));
    }
    match case.configured("PTP_1588_CLOCK_KVM") {
        Some(false) => finding.remedy(Remedy::advice(
            "Or build the guest's kernel with CONFIG_PTP_1588_CLOCK_KVM: /dev/ptp0 then shows \
             the host's time, and chrony can follow it.",
        )),
        _ => finding.remedy(
            Remedy::command(
                "Or load the host's clock as /dev/ptp0, for chrony to follow.",
                "sudo modprobe ptp_kvm",
            )
            .changes("until the next boot; name ptp_kvm in /etc/modules-load.d to keep it"),
        ),
    }
}

/// `pauses-seen`
pub(crate) fn pauses(case: &Case<'_>) -> Check {
    case.log()?;
    let restored: Vec<_> = case.logged(|event| *event == LogEvent::Restored).collect();
    let resumed = case.logged(|event| *event == LogEvent::Resumed).count();
    let Some(last) = restored.last() else {
        return Outcome::fine(match resumed {
            0 => "the kernel log knows of no suspend and no restored snapshot".to_owned(),
            n => format!(
                "{}; the kernel adds the time slept from the RTC",
                text::count(n, "suspend", "suspends")
            ),
        });
    };
    let steered =
        case.facts.steering.adjtimex.is_known_and(|state| !state.has(Adjtimex::STA_UNSYNC));
    let since = match (last.at_s, case.facts.load.uptime_s.known()) {
        (Some(at_s), Some(uptime_s)) => {
            let ago = text::duration_s((uptime_s - at_s).max(0.0));
            let last = if restored.len() > 1 { "the last " } else { "" };
            format!(", {last}{ago} ago by its own clock")
        }
        _ => String::new(),
    };
    let times = match restored.len() {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    if steered {
        return Outcome::fine(format!("restored {times}{since}; the clock is steered"));
    }
    Finding::new(
        Severity::Note,
        format!("This machine was restored from a snapshot {times}{since}"),
    )
    .evidence(log_evidence(last))
    .why(
        "Its time of day went on from the snapshot's, unless the host or a program set it since: \
         nothing in the guest shows whether one did.",
    )
    .remedy(
        Remedy::command(
            "Compare with a clock outside.",
            "curl --silent --head https://www.debian.org | grep -i ^date; date -u",
        )
        .changes(remedies::LOOKS),
    )
    .remedy(remedies::keep(case))
    .alone()
}

/// `vmclock-status`
pub(crate) fn vmclock(case: &Case<'_>) -> Check {
    let page = match &case.facts.vmclock {
        Fact::Known(page) => page,
        Fact::Unknown(Unknown::NotThere { .. }) => {
            return Err(Skipped::DoesNotApply("does not apply: no VMClock page".to_owned()));
        }
        Fact::Unknown(why) => return Err(why.into()),
    };
    let status = match page.clock_status {
        // Not vouched for yet, or by this version.
        0 => "unknown",
        1 => "initialising",
        2 => "synchronised",
        3 => "free running",
        4 => "unreliable",
        other => {
            return Err(Skipped::CouldNot(format!("clock status {other} is in no specification")));
        }
    };
    if page.clock_status < 3 {
        return Outcome::fine(format!(
            "{}: {status}; it tells programs of restores, and sets no clock",
            page.device
        ));
    }
    Finding::new(Severity::Warning, format!("The host calls its VMClock {status}"))
        .evidence(format!("{}: clock status {}", page.device, page.clock_status))
        .why("Whoever takes the time from that page, chrony by its PTP device too, takes it on trust.")
        .remedy(Remedy::advice("Tell whoever runs the host; follow NTP servers meanwhile."))
        .alone()
}

#[cfg(test)]
mod tests;
