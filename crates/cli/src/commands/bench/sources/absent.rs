//! Why a known clock source is not available on this machine.

use facts::Facts;
use facts::Unknown;
use facts::cpu::{Hypervisor, HypervisorKind};
use facts::kernel::LogEvent;

/// The reason, as far as the facts show it.
pub(super) fn reason(name: &str, facts: &Facts) -> String {
    if let Some(why) = facts.clocksources.available.unknown() {
        return why.to_string();
    }
    let reported = switched_off(name, facts).or_else(|| marked_unstable(name, facts));
    reported.unwrap_or_else(|| match name {
        "tsc" => tsc(facts),
        "tsc-early" => "used early in boot only, until the TSC is calibrated".into(),
        "kvm-clock" => kvm_clock(facts),
        "hyperv_clocksource_tsc_page" | "hyperv_clocksource_msr" => hyperv(name, facts),
        "xen" => xen(facts),
        "jiffies" | "refined-jiffies" => {
            "registered but not offered: too coarse for high-resolution timers".into()
        }
        "hpet" => device("HPET", "HPET_TIMER", facts),
        "acpi_pm" => device("ACPI PM timer", "X86_PM_TIMER", facts),
        "pit" => "offered only by 32-bit kernels on a machine with one CPU".into(),
        _ => "not offered by this kernel".into(),
    })
}

/// Kernel parameters that disable a source
/// (Documentation/admin-guide/kernel-parameters.txt).
fn switched_off(name: &str, facts: &Facts) -> Option<String> {
    let words: &[&str] = match name {
        "tsc" => &["notsc", "tsc=unstable"],
        "kvm-clock" => &["no-kvmclock", "nopv"],
        "hpet" => &["nohpet", "hpet=disable"],
        "acpi_pm" => &["acpi=off", "noacpi"],
        "xen" => &["xen_nopv", "nopv"],
        "hyperv_clocksource_tsc_page" | "hyperv_clocksource_msr" => &["nopv"],
        _ => &[],
    };
    let command_line = facts.kernel.command_line.value()?;
    let word = command_line.iter().find(|word| words.contains(&word.as_str()))?;
    Some(format!("kernel command line: {word}"))
}

fn marked_unstable(name: &str, facts: &Facts) -> Option<String> {
    facts.kernel.log.value()?.iter().rev().find_map(|line| match &line.event {
        LogEvent::MarkedUnstable { clocksource, because } if clocksource == name => {
            Some(format!("the kernel marked it unstable: {because}"))
        }
        _ => None,
    })
}

fn tsc(facts: &Facts) -> String {
    match facts.cpu.flags.value() {
        Some(flags) if !flags.tsc => "the CPU has no TSC".into(),
        Some(flags) if !flags.constant_tsc => {
            "its rate follows the CPU's frequency (no constant_tsc)".into()
        }
        _ => "the kernel does not offer it; its log does not show why".into(),
    }
}

fn kvm_clock(facts: &Facts) -> String {
    match hypervisor(facts) {
        Err(why) => why,
        Ok(Hypervisor { kvm_features: None, signature, .. }) => {
            format!("the hypervisor is {signature}, not KVM")
        }
        Ok(Hypervisor { kvm_features: Some(offered), .. })
            if !offered.clocksource && !offered.clocksource2 =>
        {
            "the host does not offer it (CPUID feature bits 0 and 3 are clear)".into()
        }
        Ok(_) if is_off("KVM_GUEST", facts) => "the kernel is built without KVM_GUEST".into(),
        Ok(_) => "the host offers it, the kernel does not; its log does not show why".into(),
    }
}

fn hyperv(name: &str, facts: &Facts) -> String {
    match hypervisor(facts) {
        Err(why) => why,
        Ok(Hypervisor { hyperv: None, signature, .. }) => {
            format!("the hypervisor is {signature}, without the Hyper-V interface")
        }
        Ok(Hypervisor { hyperv: Some(offered), .. }) => {
            let bit = match name {
                "hyperv_clocksource_msr" => offered.reference_counter,
                _ => offered.reference_tsc_page,
            };
            let offers = if bit {
                "the host offers it, the kernel does not"
            } else {
                "the host does not offer it"
            };
            offers.into()
        }
    }
}

fn xen(facts: &Facts) -> String {
    match hypervisor(facts) {
        Err(why) => why,
        Ok(Hypervisor { kind: HypervisorKind::Xen, .. }) => "the kernel does not offer it".into(),
        Ok(other) => format!("the hypervisor is {}, not Xen", other.signature),
    }
}

fn device(device: &str, option: &str, facts: &Facts) -> String {
    if is_off(option, facts) {
        format!("the kernel is built without {option}")
    } else {
        format!("the kernel found no {device}, or rejected it")
    }
}

/// The hypervisor, or why none can offer a clock.
fn hypervisor(facts: &Facts) -> Result<&Hypervisor, String> {
    match &facts.cpu.hypervisor {
        facts::Fact::Known(hypervisor) => Ok(hypervisor),
        facts::Fact::Unknown(Unknown::NotApplicable { .. }) => {
            Err("this machine has no hypervisor".into())
        }
        facts::Fact::Unknown(why) => Err(format!("the hypervisor is unknown: {why}")),
    }
}

/// Whether a known configuration lacks an option.
fn is_off(option: &str, facts: &Facts) -> bool {
    facts.kernel.configuration.is_known_and(|options| !options.contains_key(option))
}
