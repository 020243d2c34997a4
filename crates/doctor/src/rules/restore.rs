//! What a snapshot restore or a suspend does to a machine's clocks.

use facts::cpu::HypervisorKind;
use facts::kernel::version::KernelVersion;
use facts::kernel::{LogEvent, LogLine};
use facts::steering::{Adjtimex, TimeKeeperKind};
use instruments::figures;

use crate::case::trust::marked_unstable;
use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `snapshot-restore`
///
/// Measured with Firecracker 1.16 and a pause of 60 s: a guest on tsc was 64 s
/// behind after the restore, one on kvm-clock 1 s, with `clock_realtime` set.
pub(crate) fn check_snapshots(case: &Case<'_>) -> Check {
    let restored: Vec<_> = case.logged(|event| *event == LogEvent::Restored).collect();
    // Other hypervisors have guest tools that set the clock.
    let restored_by_kvm = !restored.is_empty() && case.kind() == Some(HypervisorKind::Kvm);
    let Some(platform) = case.snapshots().or(restored_by_kvm.then_some("This platform")) else {
        if let Some(device) = case.generation_device() {
            return Outcome::fine(format!(
                "no restore in the kernel log; the host can notify this machine of a restore \
                 ({device})"
            ));
        }
        // The evidence is in the kernel log and the ACPI tables.
        if case.is_guest() != Some(false) {
            case.log()?;
        }
        return Err(Skipped::DoesNotApply(
            "does not apply: no evidence that this machine is ever saved and restored".to_owned(),
        ));
    };
    let current = case.current()?;
    if let Some(corrected) = corrected_by_chrony(case)? {
        return Outcome::fine(corrected);
    }
    if case.is_kept() {
        return Outcome::fine("parachron keep runs and has a source: it corrects a restore");
    }
    let is_by_hand = is_by_hand(case, current);
    if current == "kvm-clock" && !is_by_hand {
        return Err(Skipped::CouldNot(format!(
            "kvm-clock stays correct across a restore if the host sets it, which is not visible \
             here: {}",
            host_setting(platform)
        )));
    }
    if current != "tsc" && !is_by_hand {
        return Err(Skipped::CouldNot(format!(
            "the effect of a restore on {current} is not known"
        )));
    }
    if !case.running(&[TimeKeeperKind::LinuxPtp]).is_empty() && case.host_phcs().next().is_some() {
        return Err(Skipped::CouldNot(
            "linuxptp runs; its source, and whether it may step the clock, are not visible"
                .to_owned(),
        ));
    }
    finding(case, platform, current, &restored).alone()
}

/// Whether chronyd corrects a restore at once: it follows the host's clock
/// and may step at any time. A PTP clock that is not its source corrects
/// nothing, and `makestep 1 3`, as distributions have it, allows no step long
/// after the start (chrony FAQ, "Does chronyd have to be restarted after…").
fn corrected_by_chrony(case: &Case<'_>) -> Result<Option<String>, Skipped> {
    let Some(clock) = case.phc_followed() else { return Ok(None) };
    let config = case.chrony_file().map_err(|why| {
        Skipped::CouldNot(format!(
            "chronyd follows the host's clock ({clock}); whether it may step after a restore is \
             not known: {why}"
        ))
    })?;
    Ok(config.makestep.filter(|step| step.at_any_time()).map(|_| {
        format!("chronyd follows the host's clock ({clock}) and may step at any time: it corrects a restore")
    }))
}

/// Since then the kernel prefers an invariant TSC to kvm-clock (kvmclock_init,
/// arch/x86/kernel/kvmclock.c).
const PREFERS_TSC: KernelVersion = KernelVersion { major: 5, minor: 1 };

/// Whether kvm-clock is in use where the kernel prefers tsc: until the next boot.
fn is_by_hand(case: &Case<'_>, current: &str) -> bool {
    let version = case.release().ok().and_then(KernelVersion::parse);
    current == "kvm-clock"
        && case.offers("tsc")
        && case.parameter("clocksource") != Some(current)
        && version.is_some_and(|version| version >= PREFERS_TSC)
        && case.flags().is_ok_and(|flags| flags.constant_tsc && flags.nonstop_tsc)
        && !marked_unstable(case)
}

fn finding(case: &Case<'_>, platform: &str, current: &str, restored: &[&LogLine]) -> Finding {
    let what = match current {
        "tsc" => "After each snapshot restore this clock is behind by the length of the pause",
        _ => {
            "After the next boot this clock is behind by the length of the pause after each \
             snapshot restore"
        }
    };
    let mut finding =
        Finding::new(Severity::Warning, what).evidence(format!("current_clocksource: {current}"));
    if let Ok(oem) = case.acpi_oem() {
        finding = finding.evidence(format!("ACPI tables made by {oem}"));
    }
    finding = finding.evidence_from(restored.last().copied().map(log_evidence)).explain(format!(
        "A restore sets the TSC back to its saved value, so a clock on tsc continues where it \
         stopped, unless a program in the guest then sets it. {platform} can only advance \
         kvm-clock: after a pause of 60 s a guest on tsc was 64 s behind, one on kvm-clock 1 s. (A \
         host that cannot set its guests' TSC, such as one without hardware virtualization, leaves \
         it as it is.) Certificates and leases are checked against the old time, and a database \
         that compares clocks, such as CockroachDB with a limit of 500 ms, serves with it until \
         the clock is set."
    ));
    if let Some(clock) = case.phc_followed() {
        finding = finding.evidence(format!(
            "chronyd follows the host's clock ({clock}), but its makestep setting allows no step \
             after a restore"
        ));
    }
    if case.offers("kvm-clock") {
        let switch = (current == "tsc").then(|| remedies::switch_to(case, "kvm-clock"));
        let steps = switch.into_iter().chain([
            remedies::add_parameter(case, "clocksource=kvm-clock"),
            Remedy::advice(format!("Make the host {}.", host_setting(platform)))
                .changes("kvm-clock advances over the pause, and CLOCK_MONOTONIC jumps with it"),
            Remedy::advice(
                "Take new snapshots: a snapshot taken under tsc restores a guest on tsc.",
            ),
        ]);
        finding = finding.remedies(remedies::in_order(steps.collect()));
    }
    with_phc(case, finding)
        .remedy(remedies::keep(case))
        .remedies(remedies::read_by_cockroachdb(case))
}

fn host_setting(platform: &str) -> &'static str {
    match platform {
        "Firecracker" => {
            "load snapshots with clock_realtime true (Firecracker 1.16 or later, host Linux 5.16 or \
             later)"
        }
        _ => "restore with KVM_SET_CLOCK and its realtime flag (host Linux 5.16 or later)",
    }
}

/// The host's clock as a PTP device corrects a restore under any source; a
/// VMClock page informs programs but sets no clock.
fn with_phc(case: &Case<'_>, finding: Finding) -> Finding {
    if let Some(phc) = case.host_phcs().next() {
        if case.phc_followed().is_some() {
            return finding.remedy(remedies::makestep(case));
        }
        let follow = if case.running(&[TimeKeeperKind::Chrony]).is_empty() {
            remedies::start_following_host(case, phc)
        } else {
            vec![remedies::follow_host(case, phc)]
        };
        return finding.remedies(follow).remedy(remedies::makestep(case).then());
    }
    finding.remedy(if case.configured("PTP_1588_CLOCK_KVM") == Some(false) {
        Remedy::advice(
            "Build the guest's kernel with CONFIG_PTP_1588_CLOCK_KVM: /dev/ptp0 then shows the \
             host's time, and chrony can follow it.",
        )
    } else {
        Remedy::command(
            "Load the driver that shows the host's clock as /dev/ptp0, for chrony to follow.",
            "sudo modprobe ptp_kvm",
        )
        .changes(
            "the driver, until the next boot; add its name to /etc/modules-load.d to load it at \
             every boot",
        )
    })
}

/// `pauses-seen`
pub(crate) fn check_pauses(case: &Case<'_>) -> Check {
    case.log()?;
    let restored: Vec<_> = case.logged(|event| *event == LogEvent::Restored).collect();
    // Before its exit the kernel reports that the machine wakes up.
    let resumed: Vec<_> = case.logged(|event| *event == LogEvent::Resumed).collect();
    let exits = resumed.iter().filter(|line| line.text.contains("exit")).count();
    let resumed = if exits > 0 { exits } else { resumed.len() };
    let Some(last) = restored.last() else {
        return Outcome::fine(match resumed {
            0 => "no suspend and no snapshot restore in the kernel log".to_owned(),
            n => format!(
                "{}; the kernel adds the time spent suspended from the RTC",
                text::count(n, "suspend", "suspends")
            ),
        });
    };
    if let Some(age_s) = case.age_s(last).filter(|_| !case.is_recent(last)) {
        return Outcome::fine(format!(
            "none in the last 24 h; restored from a snapshot {} ago by this machine's clock",
            figures::seconds(age_s)
        ));
    }
    let synchronised = !case.adjtimex()?.has(Adjtimex::STA_UNSYNC);
    let since = case.age_s(last).map_or_else(String::new, |age_s| {
        let last = if restored.len() > 1 { "the last " } else { "" };
        format!(", {last}{} ago by this machine's clock", figures::seconds(age_s))
    });
    let times = match restored.len() {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    if synchronised {
        return Outcome::fine(format!("restored {times}{since}; the clock is synchronised"));
    }
    Finding::new(
        Severity::Note,
        format!("This machine was restored from a snapshot {times}{since}"),
    )
    .evidence(log_evidence(last))
    .explain(
        "The time of day continued from that of the snapshot, unless the host or a program set it \
         since; nothing in the guest shows which.",
    )
    .remedy(remedies::compare())
    .remedy(remedies::keep(case))
    .alone()
}

/// `vmclock-status`
pub(crate) fn check_vmclock(case: &Case<'_>) -> Check {
    let page = case.vmclock().map_err(|why| why.unless_absent("no VMClock page"))?;
    let status = match page.clock_status {
        0 => "unknown",
        1 => "initialising",
        2 => "synchronised",
        3 => "free running",
        4 => "unreliable",
        other => {
            return Err(Skipped::CouldNot(format!(
                "clock status {other} is not in the specification"
            )));
        }
    };
    if page.clock_status < 3 {
        return Outcome::fine(format!(
            "{}: {status}; it notifies programs of restores and does not set the clock",
            page.device
        ));
    }
    Finding::new(Severity::Warning, format!("The host marks its VMClock {status}"))
        .evidence(format!("{}: clock status {}", page.device, page.clock_status))
        .explain(
            "Every reader of this page may get a wrong time, including chrony if it uses the \
             page's PTP device.",
        )
        .remedy(Remedy::advice(
            "Follow NTP servers instead (chrony: `pool pool.ntp.org iburst`), and report it to the \
             host's operator.",
        ))
        .alone()
}

#[cfg(test)]
mod tests;
