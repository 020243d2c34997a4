//! Whether this machine's TSC can be trusted as its clock: checked before any
//! rule advises a switch to it.

use facts::cpu::HypervisorKind;
use facts::hardware::PvclockPage;
use facts::kernel::LogEvent;
use instruments::figures;
use instruments::measurements::TRAPPED_RDTSC_NS;

use super::Case;

/// A TSC further than this from an independent reference runs at another rate
/// than advertised; NTP can correct 500 ppm.
pub(crate) const WRONG_RATE_PPM: f64 = 500.0;

/// A larger offset between TSCs shows in an ordered read across CPUs.
const SKEW_NS: f64 = 500.0;

/// Reasons against the TSC as a clock; empty when there are none.
pub(crate) fn against_tsc(case: &Case<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if marked_unstable(case) {
        reasons.push("the kernel marked it unstable until the next boot".to_owned());
    }
    if case.parameter("notsc").is_some() || case.sets("tsc", "unstable") {
        reasons.push("the kernel's command line excludes it".to_owned());
    }
    if let Ok(flags) = case.flags() {
        if !flags.constant_tsc {
            reasons.push("its rate may follow the CPU's frequency (no constant_tsc)".to_owned());
        }
        if !flags.nonstop_tsc && stops_unless_flagged(case) {
            reasons.push("it may stop in idle states (no nonstop_tsc)".to_owned());
        }
    }
    reasons.extend(against_advertised_rate(case));
    reasons.extend(by_measurement(case));
    reasons
}

/// The reason against all that VirtualBox derives from the TSC rate it
/// advertises, kvm-clock included: with version 5.0 a guest's kvm-clock lost
/// about 6 s in 5 minutes (docs/protocols/host.md).
pub(crate) fn against_advertised_rate(case: &Case<'_>) -> Option<String> {
    if !case.is_virtualbox() {
        return None;
    }
    let named_hz = named_hz(case)?;
    let advertised_hz = case.kernel_tsc_hz()? as f64;
    let off_ppm = (advertised_hz / named_hz - 1.0) * 1e6;
    (off_ppm.abs() > NAMED_RATE_PPM).then(|| {
        format!(
            "VirtualBox advertises {} for a CPU that is named {}",
            figures::hz(advertised_hz),
            figures::hz(named_hz)
        )
    })
}

/// A desktop CPU's TSC runs within 0.3 % of its marketed frequency.
pub(crate) const NAMED_RATE_PPM: f64 = 10_000.0;

/// The frequency in the CPU's name: `… CPU @ 3.40GHz`.
pub(crate) fn named_hz(case: &Case<'_>) -> Option<f64> {
    let (_, after) = case.cpu_model().ok()?.split_once('@')?;
    let ghz: f64 = after.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (0.1..10.0).contains(&ghz).then_some(ghz * 1e9)
}

/// Whether a TSC without `nonstop_tsc` may stop. VMware, Xen and Hyper-V give
/// a guest one that never does, and do not all flag it
/// (arch/x86/kernel/cpu/vmware.c sets `constant_tsc` alone).
pub(crate) fn stops_unless_flagged(case: &Case<'_>) -> bool {
    !matches!(
        case.kind(),
        Some(HypervisorKind::Vmware | HypervisorKind::Xen | HypervisorKind::HyperV)
    )
}

/// Whether the kernel log reports that the TSC was found unstable.
pub(crate) fn marked_unstable(case: &Case<'_>) -> bool {
    case.logged(|event| {
        matches!(event, LogEvent::MarkedUnstable { clocksource, because }
            // Because of a parameter is another reason, reported by itself.
            if is_tsc(clocksource) && !because.contains("boot parameter"))
    })
    .next()
    .is_some()
}

/// Whether a log line's clock source is the TSC: `tsc`, `tsc-early`, `TSC`.
pub(crate) fn is_tsc(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("tsc")
}

fn by_measurement(case: &Case<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    let Ok(measured) = case.measured() else { return reasons };
    if let Some(cost) = case.counter_cost().filter(|cost| cost.ns.min > TRAPPED_RDTSC_NS) {
        reasons.push(format!(
            "a read costs {}: the hypervisor emulates it",
            figures::time(cost.ns.median)
        ));
    }
    if let Some(off) = rate_error_ppm(case).filter(|off| off.abs() > WRONG_RATE_PPM) {
        reasons.push(format!(
            "its rate is {} off the rate that the kernel assumes",
            figures::ppm(off)
        ));
    }
    if measured.skews.iter().any(|skew| skew.offset_ns.abs() - skew.bound_ns > SKEW_NS) {
        reasons.push("the counters of its CPUs disagree".to_owned());
    }
    reasons
}

/// By how much the TSC's measured rate differs from the rate the kernel
/// assumes; only where the reference does not itself come from the TSC.
pub(crate) fn rate_error_ppm(case: &Case<'_>) -> Option<f64> {
    let measured = case.measured().ok()?;
    // Under any other source CLOCK_MONOTONIC_RAW is the TSC times the advertised
    // rate: it would agree with itself.
    let independent = ["hpet", "acpi_pm"].contains(&measured.clocksource.as_deref()?);
    let rate = measured.tsc_rate.filter(|_| independent)?;
    let assumed = case.kernel_tsc_hz()? as f64;
    let off = (rate.hz / assumed - 1.0) * 1e6;
    (off.abs() > rate.bound_ppm).then_some(off)
}

/// The TSC frequency of a kvm-clock page's scale
/// (arch/x86/kernel/pvclock.c, `pvclock_tsc_khz`).
pub(crate) fn page_hz(page: &PvclockPage) -> Option<f64> {
    let shift = i32::from(page.tsc_shift);
    (page.tsc_to_system_mul != 0 && (-31..=31).contains(&shift))
        .then(|| 1e9 * 2f64.powi(32 - shift) / f64::from(page.tsc_to_system_mul))
}
