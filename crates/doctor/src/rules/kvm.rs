//! KVM: guests without kvm-clock or with an unstable one, and hosts that cannot
//! provide a stable one.

use facts::cpu::{HypervisorKind, KvmFeatures};
use facts::hardware::PvclockPage;
use facts::kernel::LogEvent;

use crate::case::trust::against_tsc;
use crate::case::{Case, cost_evidence, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

/// The pvclock page's flag for a TSC that is stable across CPUs.
const TSC_STABLE: u8 = 1;

/// KVM_CLOCK_TSC_STABLE of `KVM_GET_CLOCK`.
const HOST_TSC_STABLE: u32 = 2;

/// `kvm-clock-missing`
pub(crate) fn check_missing(case: &Case<'_>) -> Check {
    let hypervisor = case.hypervisor()?;
    if hypervisor.kind != HypervisorKind::Kvm {
        return Err(Skipped::DoesNotApply(format!(
            "does not apply: the hypervisor is {}",
            case.hypervisor_name().unwrap_or_default()
        )));
    }
    if case.is_arm64() {
        return Outcome::fine("arm64 has none: programs read the processor's counter directly");
    }
    if case.available()?.iter().any(|source| source == "kvm-clock") {
        return Outcome::fine("kvm-clock is available");
    }
    if let Some(kind) = case.confidential() {
        return Outcome::fine(format!("{kind}: the host's clock page is no clock of this guest's"));
    }
    let finding = Finding::new(Severity::Warning, "This KVM guest has no kvm-clock")
        .evidence(format!("available_clocksource: {}", case.available()?.join(" ")));
    let finding = match hypervisor.kvm_features {
        Some(features) => finding.evidence(format!(
            "CPUID 0x40000001 EAX: {:#010x} (bit 0 CLOCKSOURCE {}, bit 3 CLOCKSOURCE2 {})",
            features.eax,
            u8::from(features.clocksource),
            u8::from(features.clocksource2)
        )),
        None => finding,
    };
    let why = "kvm-clock gives the guest the TSC's frequency and the time of day at boot, and \
               stays correct across migrations. Without kvm-clock, the guest measures the TSC's \
               frequency itself, with an error that depends on the host's load.";
    with_cause(case, finding.explain(why), hypervisor.kvm_features).alone()
}

fn with_cause(case: &Case<'_>, finding: Finding, features: Option<KvmFeatures>) -> Finding {
    let offered = features.is_some_and(|bits| bits.clocksource || bits.clocksource2);
    if !offered {
        return finding.remedy(Remedy::advice(
            "Enable kvm-clock on the host, which does not offer it. QEMU: -cpu host,kvmclock=on; \
             libvirt: <timer name='kvmclock' present='yes'/> in <clock>.",
        ));
    }
    if let Some(parameter) =
        ["no-kvmclock", "nopv"].into_iter().find(|name| case.parameter(name).is_some())
    {
        return finding
            .evidence(format!("kernel command line: {parameter}"))
            .remedy(remedies::remove_parameter(case, parameter))
            .remedy(Remedy::advice("Set clocksource=tsc instead if tsc is what you want."));
    }
    if case.configured("KVM_GUEST") == Some(false) {
        return finding.evidence("kernel configuration: CONFIG_KVM_GUEST is not set").remedy(
            Remedy::advice("Use a kernel with CONFIG_KVM_GUEST=y (and CONFIG_PARAVIRT=y)."),
        );
    }
    finding.remedy(Remedy::command(
        "Search the kernel's log for the reason: the host offers kvm-clock, but the kernel does \
         not use it.",
        "sudo dmesg | grep -i kvm-clock",
    ))
}

/// Whether the host flags the TSC as stable in the kvm-clock page.
pub(crate) fn is_stable(case: &Case<'_>) -> bool {
    case.pvclock_page().is_ok_and(|page| page.flags & TSC_STABLE != 0)
}

/// `kvm-clock-not-stable`
pub(crate) fn check_not_stable(case: &Case<'_>) -> Check {
    if case.current()? != "kvm-clock" {
        return Err(Skipped::DoesNotApply("does not apply: kvm-clock is not in use".to_owned()));
    }
    let page = case.pvclock_page().ok();
    let by_page = page.map(|page| page.flags & TSC_STABLE != 0);
    let by_count = case.clock_cost().map(|cost| !cost.path.is_kernel());
    let offered = case
        .hypervisor()
        .ok()
        .and_then(|hypervisor| hypervisor.kvm_features)
        .map(|features| features.clocksource_stable);
    match by_page.or(by_count).or(offered.filter(|stable| !stable)) {
        Some(true) => return Outcome::fine("the host flags its TSC as stable (TSC_STABLE)"),
        None => {
            case.pvclock_page()?;
        }
        Some(false) => {}
    }
    // A parameter also makes every read a system call: harmful-parameters
    // reports that.
    if case.parameter("no-kvmclock-vsyscall").is_some() {
        return Outcome::fine("a kernel parameter keeps programs from reading the page");
    }
    Finding::new(
        Severity::Error,
        "The host does not flag its TSC as stable, so each read of kvm-clock is a system call",
    )
    .evidence_from(page.map(flags_line))
    .evidence_from(case.clock_cost().map(cost_evidence))
    .explain(
        "Without TSC_STABLE the vCPUs' clocks may differ, so the kernel returns the largest value \
         so far, and programs cannot read the page themselves. A read costs several times as much, \
         and all CPUs contend for one word of memory.",
    )
    .remedy(
        Remedy::command(
            "Check on the host that its own clock source is tsc; if it is not, run parachron \
             doctor there.",
            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .changes(
            "nothing; once the host uses tsc KVM sets the flag, and guests that booted without it \
             use it from their next boot on",
        ),
    )
    .remedy(Remedy::advice(
        "Set one TSC frequency and offset for all vCPUs of this guest, on the host.",
    ))
    .alone()
}

fn flags_line(page: &PvclockPage) -> String {
    format!("kvm-clock page: flags {:#04x}, bit 0 TSC_STABLE is not set", page.flags)
}

/// `kvm-host-clock`
pub(crate) fn check_host(case: &Case<'_>) -> Check {
    let mut logged = case.logged(|event| *event == LogEvent::GuestTscUnreliable);
    let logged = logged.next();
    let host = match (case.kvm_host(), logged) {
        (Ok(host), _) => host,
        (Err(_), Some(line)) => return unstable_host(case, log_evidence(line)).alone(),
        (Err(why), None) => return Err(why.unless_absent("no /dev/kvm")),
    };
    if host.flags & HOST_TSC_STABLE != 0 {
        return Outcome::fine("guests of this host get one stable clock (master clock on)");
    }
    let flags = format!("KVM_GET_CLOCK flags {:#x}: TSC_STABLE is not set", host.flags);
    unstable_host(case, flags).evidence_from(logged.map(log_evidence)).alone()
}

/// A host whose guests get no master clock.
fn unstable_host(case: &Case<'_>, evidence: String) -> Finding {
    let current = case.current().unwrap_or("unknown");
    let mut finding =
        Finding::new(Severity::Warning, "Guests of this KVM host get no stable kvm-clock")
            .evidence(evidence)
            .evidence(format!("current_clocksource of this host: {current}"))
            .explain(format!(
                "KVM gives all vCPUs one clock only while the host's own clock source is tsc. \
                 Otherwise each clock read in each guest is a system call. {}",
                crate::fault::HOST
            ));
    if current != "tsc" && against_tsc(case).is_empty() && case.offers("tsc") {
        finding = finding.remedy(remedies::switch_to(case, "tsc"));
        if let Some(platform) = case.snapshots() {
            finding = finding.remedy(Remedy::advice(format!(
                "This host is itself a guest of {platform}: with tsc its clock falls behind when it \
                 is restored from a snapshot."
            )));
        }
    } else {
        finding = finding.remedy(Remedy::advice(
            "Fix the other findings about this host's TSC. KVM then flags the clock of running \
             guests as stable at once; guests that booted before use the flag after their reboot.",
        ));
    }
    finding
}

#[cfg(test)]
mod tests;
