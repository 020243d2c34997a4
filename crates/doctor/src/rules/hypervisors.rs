//! What each hypervisor other than KVM needs.

use facts::cpu::HypervisorKind;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};

/// `virtualbox-provider`
pub(crate) fn virtualbox(case: &Case<'_>) -> Check {
    if !case.is_virtualbox() {
        return Err(Skipped::DoesNotApply("does not apply: not VirtualBox".to_owned()));
    }
    // The provider shows in the signature: VirtualBox manual, chapter on
    // paravirtualisation providers.
    let (provider, shown) = match case.hypervisor() {
        Ok(hypervisor) => match hypervisor.kind {
            HypervisorKind::Kvm => return Outcome::fine("provider kvm: the one for Linux guests"),
            HypervisorKind::HyperV => ("hyperv", hypervisor.signature.clone()),
            _ => ("minimal", hypervisor.signature.clone()),
        },
        Err(Skipped::DoesNotApply(_)) => ("none or legacy", "none".to_owned()),
        Err(could_not) => return Err(could_not),
    };
    Finding::new(
        Severity::Warning,
        format!("VirtualBox runs this Linux guest with provider {provider} instead of kvm"),
    )
    .evidence(format!("hypervisor signature: {shown}"))
    .why(
        "Without the kvm provider the guest has no kvm-clock and must measure the TSC itself. \
         Switching between processes was 2.8 times as fast with it (UnixBench, 329 against 920).",
    )
    .remedy(
        Remedy::command(
            "On the host, with the VM off:",
            "VBoxManage modifyvm NAME --paravirtprovider kvm",
        )
        .changes(
            "from the VM's next start on; then check the clock's rate against NTP, since some \
             versions announce the TSC up to 2 % wrong",
        ),
    )
    .alone()
}

/// `hyperv-clock`
pub(crate) fn hyperv(case: &Case<'_>) -> Check {
    let hypervisor = case.hypervisor()?;
    let Some(features) = hypervisor.hyperv.filter(|_| hypervisor.kind == HypervisorKind::HyperV)
    else {
        return Err(Skipped::DoesNotApply("does not apply: not Hyper-V".to_owned()));
    };
    let available = case.available()?;
    let page = "hyperv_clocksource_tsc_page";
    if available.iter().any(|source| source == page) {
        return Outcome::fine("Hyper-V's reference TSC page is there");
    }
    let finding = Finding::new(Severity::Warning, "Hyper-V's clock page is missing here")
        .evidence(format!("available_clocksource: {}", available.join(" ")))
        .evidence(format!(
            "CPUID 0x40000003 EAX: {:#010x} (bit 9 reference TSC page {})",
            features.eax,
            u8::from(features.reference_tsc_page)
        ))
        .why(
            "The page carries the clock over live migrations and is read inside the program. \
             Without it Linux asks the hypervisor for each reading, or trusts a TSC that another \
             host may run at another rate.",
        );
    match features.reference_tsc_page {
        true => finding.remedy(Remedy::advice(
            "Use a kernel with CONFIG_HYPERV and CONFIG_HYPERV_TIMER: the host offers the page.",
        )),
        false => finding.remedy(Remedy::advice(
            "The host does not offer it. QEMU: -cpu host,hv-time; libvirt: <timer \
             name='hypervclock' present='yes'/>.",
        )),
    }
    .alone()
}

/// `software-emulation`
pub(crate) fn emulated(case: &Case<'_>) -> Check {
    if case.hypervisor()?.kind != HypervisorKind::Tcg {
        return Outcome::fine("programs run on the CPU itself");
    }
    Finding::new(Severity::Warning, "This machine is emulated in software (QEMU TCG)")
        .evidence("hypervisor signature: TCGTCGTCGTCG")
        .why(
            "Every instruction is translated, the reading of a clock too: figures taken here say \
             nothing about a real machine, and time-outs come early.",
        )
        .remedy(Remedy::advice(
            "Start QEMU with -accel kvm, on a host where /dev/kvm is open to it.",
        ))
        .alone()
}

#[cfg(test)]
mod tests;
