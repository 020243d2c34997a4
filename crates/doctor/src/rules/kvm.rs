//! KVM: guests without kvm-clock, with an unstable one, and hosts that cannot
//! give a stable one.

use facts::cpu::{HypervisorKind, KvmFeatures};
use facts::hardware::PvclockPage;
use facts::{Fact, Unknown};

use crate::case::trust::against_tsc;
use crate::case::{Case, cost_line};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

/// The pvclock page's flag by which the host vouches for the TSC.
const TSC_STABLE: u8 = 1;

/// KVM_CLOCK_TSC_STABLE of `KVM_GET_CLOCK`.
const HOST_TSC_STABLE: u32 = 2;

/// `kvm-clock-missing`
pub(crate) fn missing(case: &Case<'_>) -> Check {
    let hypervisor = case.hypervisor()?;
    if hypervisor.kind != HypervisorKind::Kvm {
        return Err(Skipped::DoesNotApply(format!(
            "does not apply: the hypervisor shows itself as {}",
            hypervisor.signature
        )));
    }
    if case.available()?.iter().any(|source| source == "kvm-clock") {
        return Outcome::fine("kvm-clock is there");
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
    let why = "kvm-clock tells the guest the TSC's frequency and the time of day at boot, and \
               carries it over migrations. Without it the guest measures the TSC itself, while \
               the host is busy with others.";
    with_cause(case, finding.why(why), hypervisor.kvm_features).alone()
}

fn with_cause(case: &Case<'_>, finding: Finding, features: Option<KvmFeatures>) -> Finding {
    let offered = features.is_some_and(|bits| bits.clocksource || bits.clocksource2);
    if !offered {
        return finding.remedy(Remedy::advice(
            "The host does not offer it. QEMU: -cpu host,kvmclock=on; libvirt: <timer \
             name='kvmclock' present='yes'/> below <clock>.",
        ));
    }
    if let Some(parameter) =
        ["no-kvmclock", "nopv"].into_iter().find(|name| case.parameter(name).is_some())
    {
        return finding
            .evidence(format!("kernel command line: {parameter}"))
            .remedy(remedies::remove_parameter(case, parameter))
            .remedy(Remedy::advice("To use tsc, clocksource=tsc is enough."));
    }
    if case.configured("KVM_GUEST") == Some(false) {
        return finding.evidence("kernel configuration: CONFIG_KVM_GUEST is not set").remedy(
            Remedy::advice("Use a kernel with CONFIG_KVM_GUEST=y (and CONFIG_PARAVIRT=y)."),
        );
    }
    finding.remedy(Remedy::command(
        "The host offers it and the kernel did not take it: see what the log says.",
        "sudo dmesg | grep -i kvm-clock",
    ))
}

/// `kvm-clock-not-stable`
pub(crate) fn not_stable(case: &Case<'_>) -> Check {
    if case.current()? != "kvm-clock" {
        return Err(Skipped::DoesNotApply("does not apply: kvm-clock is not in use".to_owned()));
    }
    let page = case.facts.pvclock_page.known();
    let by_page = page.map(|page| page.flags & TSC_STABLE != 0);
    let by_count = case.clock_cost().map(|cost| !cost.path.is_kernel());
    let offered = case
        .hypervisor()
        .ok()
        .and_then(|hypervisor| hypervisor.kvm_features)
        .map(|features| features.clocksource_stable);
    match by_page.or(by_count).or(offered.filter(|stable| !stable)) {
        Some(true) => return Outcome::fine("the host vouches for its TSC (TSC_STABLE)"),
        None => return Err(crate::case::why_not(&case.facts.pvclock_page)),
        Some(false) => {}
    }
    // Read by every program through the kernel for another reason: that
    // rule's business.
    if case.parameter("no-kvmclock-vsyscall").is_some() {
        return Outcome::fine("programs are kept from the page by a kernel parameter");
    }
    let mut finding = Finding::new(
        Severity::Error,
        "The host does not vouch for its TSC, so each reading of kvm-clock is a system call",
    );
    if let Some(page) = page {
        finding = finding.evidence(flags_line(page));
    }
    if let Some(cost) = case.clock_cost() {
        finding = finding.evidence(cost_line(cost));
    }
    finding
        .why(
            "Without TSC_STABLE the vCPUs' readings may differ, so the kernel hands out the \
             largest seen and keeps programs from reading the page themselves: several times the \
             cost, and all CPUs meet at one word of memory.",
        )
        .remedy(
            Remedy::command(
                "On the host: see whether its own clock source is tsc, and why if it is not.",
                "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
            )
            .changes(
                "nothing; once the host is on tsc again KVM sets the flag, and guests that were \
                 booted without it use it from their next boot on",
            ),
        )
        .remedy(Remedy::advice(
            "On the host: give all vCPUs of this guest one TSC frequency and offset.",
        ))
        .alone()
}

fn flags_line(page: &PvclockPage) -> String {
    format!("kvm-clock page: flags {:#04x}, bit 0 TSC_STABLE is not set", page.flags)
}

/// `kvm-host-clock`
pub(crate) fn host(case: &Case<'_>) -> Check {
    let host = match &case.facts.kvm_host {
        Fact::Known(host) => host,
        Fact::Unknown(Unknown::NotThere { .. }) => {
            return Err(Skipped::DoesNotApply("does not apply: no /dev/kvm".to_owned()));
        }
        Fact::Unknown(why) => return Err(why.into()),
    };
    if host.flags & HOST_TSC_STABLE != 0 {
        return Outcome::fine("as a KVM host: guests get one stable clock (master clock on)");
    }
    let current = case.current().unwrap_or("unknown");
    let mut finding =
        Finding::new(Severity::Warning, "Guests of this KVM host do not get a stable kvm-clock")
            .evidence(format!("KVM_GET_CLOCK flags {:#x}: TSC_STABLE is not set", host.flags))
            .evidence(format!("current_clocksource of this host: {current}"))
            .why(
                "KVM gives all vCPUs one clock only while the host itself keeps time by the TSC. \
                 Otherwise each reading in each guest is a system call.",
            );
    if current != "tsc" && against_tsc(case).is_empty() && case.offers("tsc") {
        finding = finding.remedy(remedies::switch_to(case, "tsc"));
        if let Some(platform) = case.snapshots() {
            finding = finding.remedy(Remedy::advice(format!(
                "Weigh it: this host is itself a guest of {platform}, and tsc falls behind when \
                 it is restored from a snapshot."
            )));
        }
    } else {
        finding = finding.remedy(Remedy::advice(
            "See the findings about the TSC of this host; guests follow at once when it is mended.",
        ));
    }
    finding.alone()
}

#[cfg(test)]
mod tests;
