//! What each hypervisor other than KVM needs.

use facts::cpu::HypervisorKind;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};

/// `virtualbox-provider`
pub(crate) fn check_virtualbox(case: &Case<'_>) -> Check {
    if !case.is_virtualbox() {
        return Err(Skipped::DoesNotApply("does not apply: not VirtualBox".to_owned()));
    }
    // The provider shows in the signature: VirtualBox manual, chapter on
    // paravirtualisation providers.
    let (provider, shown) = match case.hypervisor() {
        Ok(hypervisor) => match hypervisor.kind {
            HypervisorKind::Kvm => {
                return Outcome::fine("provider kvm, which Linux guests should have");
            }
            HypervisorKind::HyperV => ("hyperv", hypervisor.signature.clone()),
            _ => ("minimal", hypervisor.signature.clone()),
        },
        Err(Skipped::DoesNotApply(_)) => ("none or legacy", "none".to_owned()),
        Err(could_not) => return Err(could_not),
    };
    // Provider legacy is the remedy of tsc-frequency.
    let chosen = provider == "none or legacy";
    let finding = Finding::new(
        if chosen { Severity::Note } else { Severity::Warning },
        format!(
            "VirtualBox runs this Linux guest with the paravirtualization provider {provider}, not \
             kvm"
        ),
    )
    .evidence(format!("hypervisor signature: {shown}"))
    .explain(
        "Without provider kvm, the guest has no kvm-clock and must measure the TSC's frequency \
         itself.",
    );
    finding
        .remedy(
            Remedy::command(
                if chosen {
                    "Set the provider on the host, with the VM off, unless provider kvm advertised \
                     a wrong TSC rate here (rule tsc-frequency):"
                } else {
                    "Set the provider on the host, with the VM off:"
                },
                "VBoxManage modifyvm NAME --paravirtprovider kvm",
            )
            .changes(
                "the VM from its next start on; then compare its clock with NTP: some versions \
                 advertise a TSC rate up to 2 % wrong",
            ),
        )
        .alone()
}

/// `hyperv-clock`
pub(crate) fn check_hyperv(case: &Case<'_>) -> Check {
    let hypervisor = case.hypervisor()?;
    let Some(features) = hypervisor.hyperv.filter(|_| hypervisor.kind == HypervisorKind::HyperV)
    else {
        return Err(Skipped::DoesNotApply("does not apply: not Hyper-V".to_owned()));
    };
    let available = case.available()?;
    let page = "hyperv_clocksource_tsc_page";
    if available.iter().any(|source| source == page) {
        return Outcome::fine("Hyper-V's reference TSC page is available");
    }
    let finding = Finding::new(Severity::Warning, "Hyper-V's reference TSC page is missing")
        .evidence(format!("available_clocksource: {}", available.join(" ")))
        .evidence(format!(
            "CPUID 0x40000003 EAX: {:#010x} (bit 9 reference TSC page {})",
            features.eax,
            u8::from(features.reference_tsc_page)
        ))
        .explain(
            "The page keeps the clock correct across live migrations, and programs read it without \
             a system call. Without the page, each read exits to the hypervisor, or Linux relies \
             on a TSC that may run at another rate on another host.",
        );
    finding
        .remedy(Remedy::advice(if features.reference_tsc_page {
            "Use a kernel with CONFIG_HYPERV and CONFIG_HYPERV_TIMER: the host offers the page."
        } else {
            "Enable the page on the host, which does not offer it. QEMU: -cpu host,hv-time; \
             libvirt: <timer name='hypervclock' present='yes'/>."
        }))
        .alone()
}

/// `software-emulation`
pub(crate) fn check_emulated(case: &Case<'_>) -> Check {
    let hypervisor = case.hypervisor()?;
    if hypervisor.kind != HypervisorKind::Tcg {
        return Outcome::fine("the CPU executes programs directly");
    }
    Finding::new(Severity::Warning, "This machine's CPU is emulated in software (QEMU TCG)")
        .evidence(format!("hypervisor signature: {}", hypervisor.signature))
        .explain(
            "QEMU translates every instruction, clock reads included: figures measured here are \
             not those of a real machine, and timeouts expire early.",
        )
        .remedy(Remedy::advice("Start QEMU with -accel kvm, on a host that lets it open /dev/kvm."))
        .alone()
}

#[cfg(test)]
mod tests;
