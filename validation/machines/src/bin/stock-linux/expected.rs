//! What a stock kernel must make of each provider, by its source and not by ours.

use std::fs;

use host::ClockProvider;

use crate::Provider;

/// What the choice rests on beside the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpectedMachine {
    /// Version and major release: 6.12.
    pub(crate) kernel: (u32, u32),
    pub(crate) vcpus: usize,
    /// KVM passes on what its host's CPU has: CPUID 0x8000_0007 EDX bit 8.
    pub(crate) invariant_tsc: bool,
    pub(crate) is_intel: bool,
}

impl ExpectedMachine {
    /// The machine that this one gives its guests, by the kernel here: not by the code that
    /// makes the guest's CPUID.
    pub(crate) fn here(release: &str, vcpus: usize) -> Self {
        let mut numbers = release.split(['.', '-']).map_while(|word| word.parse().ok());
        let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let cpus = fs::read_to_string("/proc/cpuinfo").expect("/proc is mounted");
        let has = |flag| cpus.split_whitespace().any(|word| word == flag);
        let invariant_tsc = has("constant_tsc") && has("nonstop_tsc");
        Self { kernel, vcpus, invariant_tsc, is_intel: has("GenuineIntel") }
    }
}

/// A page's rate is told in whole kHz: half of one of 2 GHz is 0.25 ppm.
pub(crate) const PAGE_PPM: f64 = 0.25;

/// The current clock source.
pub(crate) fn clocksource(provider: Provider, machine: ExpectedMachine) -> &'static str {
    match provider {
        // arch/x86/kernel/kvmclock.c, kvmclock_init: rated below the TSC where that is
        // constant, does not stop, and is not known to be unstable.
        Provider::Kernel | Provider::Own(ClockProvider::Kvm) if machine.invariant_tsc => "tsc",
        Provider::Kernel | Provider::Own(ClockProvider::Kvm) => "kvm-clock",
        // drivers/clocksource/hyperv_timer.c: rated below the TSC where the host lets that
        // be invariant (MSR 0x40000118), which is offered where it is.
        Provider::Own(ClockProvider::HyperV) if machine.invariant_tsc => "tsc",
        Provider::Own(ClockProvider::HyperV) => "hyperv_clocksource_tsc_page",
        Provider::Own(_) if trusts_tsc(machine) => "tsc",
        // No TSC: the machine's HPET, rated above its PM timer (arch/x86/kernel/hpet.c).
        Provider::Own(_) => "hpet",
    }
}

/// The TSC until the kernel has measured it by the PM timer: it tries each second, and
/// where an exit to the timer takes long, again and again (arch/x86/kernel/tsc.c,
/// tsc_refine_calibration_work).
pub(crate) const EARLY: &str = "tsc-early";

/// Lines of the log that are true of such a machine.
pub(crate) fn true_verdicts(
    provider: Provider,
    machine: ExpectedMachine,
) -> &'static [&'static str] {
    match provider {
        // arch/x86/kernel/cpu/mshyperv.c: without MSR 0x40000118.
        Provider::Own(ClockProvider::HyperV) if machine.invariant_tsc => &[],
        Provider::Own(ClockProvider::HyperV) => &["unstable due to running on hyper-v"],
        _ if !trusts_tsc(machine) => &["unstable due to tscs unsynchronized"],
        _ => &[],
    }
}

/// arch/x86/kernel/tsc.c, unsynchronized_tsc: a TSC that is not constant is not taken
/// on several CPUs of anybody but Intel; since 6.9 on several packages, and KVM tells of one.
fn trusts_tsc(machine: ExpectedMachine) -> bool {
    machine.invariant_tsc || machine.is_intel || machine.vcpus == 1 || machine.kernel >= (6, 9)
}

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
        assert!(
            true_verdicts(hyperv, invariant).is_empty() && !true_verdicts(hyperv, amd).is_empty()
        );
        assert_eq!(of(Provider::Own(ClockProvider::None), amd), "hpet");
        let newer = ExpectedMachine { kernel: (6, 12), ..amd };
        assert_eq!(of(Provider::Own(ClockProvider::None), newer), "tsc");
        assert_eq!(true_verdicts(Provider::Kernel, newer).len(), 0);
        assert_eq!(true_verdicts(Provider::Kernel, amd).len(), 1);
        assert_eq!(
            of(Provider::Own(ClockProvider::Minimal), ExpectedMachine { vcpus: 1, ..amd }),
            "tsc"
        );
    }
}
