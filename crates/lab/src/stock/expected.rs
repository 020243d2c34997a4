//! What a stock kernel must make of each provider, by its source and not by ours.

use host::ClockProvider;

use crate::bench::Provider;

/// What the choice rests on beside the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpectedMachine {
    /// Version and major release: 6.12.
    pub(super) kernel: (u32, u32),
    pub(super) vcpus: usize,
    /// CPUID 0x8000_0007 EDX bit 8: the TSC is invariant.
    pub(super) invariant_tsc: bool,
    pub(super) is_intel: bool,
}

/// A page's rate is told in whole kHz: half of one of 2 GHz is 0.25 ppm.
pub(super) const PAGE_PPM: f64 = 0.25;

/// The current clock source.
pub(super) fn clocksource(provider: Provider, machine: ExpectedMachine) -> &'static str {
    match provider {
        // arch/x86/kernel/kvmclock.c, kvmclock_init: rated below the TSC where that is
        // constant, does not stop, and is not known to be unstable.
        Provider::Kernel | Provider::Own(ClockProvider::Kvm) if machine.invariant_tsc => "tsc",
        Provider::Kernel | Provider::Own(ClockProvider::Kvm) => "kvm-clock",
        // drivers/clocksource/hyperv_timer.c: rated below the TSC where the host lets that
        // be invariant (MSR 0x40000118), which is offered where it is.
        Provider::Own(ClockProvider::HyperV) if machine.invariant_tsc => "tsc",
        Provider::KernelHyperV | Provider::Own(ClockProvider::HyperV) => {
            "hyperv_clocksource_tsc_page"
        }
        Provider::Own(_) if trusts_tsc(machine) => "tsc",
        // No TSC: the machine's HPET, rated above its PM timer (arch/x86/kernel/hpet.c).
        Provider::Own(_) => "hpet",
    }
}

/// The TSC until the kernel has measured it by the PM timer: it tries each second, and
/// where an exit to the timer takes long, again and again (arch/x86/kernel/tsc.c,
/// tsc_refine_calibration_work).
pub(super) const EARLY: &str = "tsc-early";

/// Lines of the log that are true of such a machine.
pub(super) fn true_verdicts(
    provider: Provider,
    machine: ExpectedMachine,
) -> &'static [&'static str] {
    match provider {
        // arch/x86/kernel/cpu/mshyperv.c: without MSR 0x40000118.
        Provider::Own(ClockProvider::HyperV) if machine.invariant_tsc => &[],
        Provider::KernelHyperV | Provider::Own(ClockProvider::HyperV) => {
            &["unstable due to running on hyper-v"]
        }
        _ if !trusts_tsc(machine) => &["unstable due to tscs unsynchronized"],
        _ => &[],
    }
}

/// Whether the VMClock's driver reads it: with no TSC that is held unstable
/// (vmclock_get_crosststamp, drivers/ptp/ptp_vmclock.c).
pub(super) fn driver_reads_vmclock(provider: Provider, machine: ExpectedMachine) -> bool {
    match provider {
        Provider::KernelHyperV => false,
        Provider::Own(ClockProvider::HyperV) => machine.invariant_tsc,
        _ => trusts_tsc(machine),
    }
}

/// arch/x86/kernel/tsc.c, unsynchronized_tsc: a TSC that is not constant is not taken
/// on several CPUs of anybody but Intel; since 6.9 on several packages, and KVM tells of one.
fn trusts_tsc(machine: ExpectedMachine) -> bool {
    machine.invariant_tsc || machine.is_intel || machine.vcpus == 1 || machine.kernel >= (6, 9)
}

/// Findings of the doctor inside that are true of such a machine; any other warning
/// or error is a fault of ours.
pub(super) const TRUE_FINDINGS: [&str; 0] = [];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_its_source() {
        let amd =
            ExpectedMachine { kernel: (6, 1), vcpus: 2, invariant_tsc: false, is_intel: false };
        let of = |provider, machine| clocksource(provider, machine);
        assert_eq!(of(Provider::Kernel, amd), "kvm-clock");
        assert_eq!(
            of(Provider::Own(ClockProvider::Kvm), ExpectedMachine { invariant_tsc: true, ..amd }),
            "tsc"
        );
        let (hyperv, invariant) =
            (Provider::Own(ClockProvider::HyperV), ExpectedMachine { invariant_tsc: true, ..amd });
        assert_eq!(of(hyperv, amd), "hyperv_clocksource_tsc_page");
        assert_eq!(of(hyperv, invariant), "tsc");
        assert_eq!(of(Provider::KernelHyperV, invariant), "hyperv_clocksource_tsc_page");
        assert!(
            true_verdicts(hyperv, invariant).is_empty() && !true_verdicts(hyperv, amd).is_empty()
        );
        assert!(driver_reads_vmclock(hyperv, invariant) && !driver_reads_vmclock(hyperv, amd));
        assert_eq!(of(Provider::Own(ClockProvider::None), amd), "hpet");
        let newer = ExpectedMachine { kernel: (6, 12), ..amd };
        assert_eq!(of(Provider::Own(ClockProvider::None), newer), "tsc");
        assert_eq!(true_verdicts(Provider::Kernel, newer).len(), 0);
        let reads = |provider| driver_reads_vmclock(provider, newer);
        assert!(reads(Provider::Kernel) && !reads(Provider::Own(ClockProvider::HyperV)));
        assert_eq!(true_verdicts(Provider::Kernel, amd).len(), 1);
        assert_eq!(
            of(Provider::Own(ClockProvider::Minimal), ExpectedMachine { vcpus: 1, ..amd }),
            "tsc"
        );
    }
}
