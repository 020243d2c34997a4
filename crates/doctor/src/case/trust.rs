//! Whether this machine's TSC can be trusted as its clock: asked before any
//! rule advises to switch to it.

use facts::cpu::HypervisorKind;
use facts::kernel::LogEvent;

use super::Case;
use crate::text;

/// A TSC further than this from a reference that does not depend on it runs
/// at another rate than was announced; NTP can steer 500 ppm.
pub(crate) const WRONG_RATE_PPM: f64 = 500.0;

/// An RDTSC above this was answered by the hypervisor, not by the CPU: the
/// instruction takes 6–25 ns, an exit to the host 500 ns and more.
pub(crate) const TRAPPED_NS: f64 = 250.0;

/// TSCs further apart than this show in an ordered read across CPUs.
const SKEW_NS: f64 = 500.0;

/// What speaks against the TSC as a clock; empty when nothing does.
pub(crate) fn against_tsc(case: &Case<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if marked_unstable(case) {
        reasons.push("the kernel marked it unstable, which stands until the next boot".to_owned());
    }
    if case.parameter("notsc").is_some() || case.asks("tsc", "unstable") {
        reasons.push("the kernel command line rules it out".to_owned());
    }
    if let Ok(flags) = case.flags() {
        if !flags.constant_tsc {
            reasons.push("its rate may follow the CPU's frequency (no constant_tsc)".to_owned());
        }
        if !flags.nonstop_tsc && stops_unless_said(case) {
            reasons.push("it may stop in idle states (no nonstop_tsc)".to_owned());
        }
    }
    reasons.extend(against_announced_rate(case));
    reasons.extend(by_measurement(case));
    reasons
}

/// What speaks against everything VirtualBox derives from the TSC rate it
/// announces, kvm-clock included: version 5.0 announced 3 478 274 491 Hz for
/// a CPU of 3.40 GHz that ran at 3 400 109 000, and 300 s took 294.
pub(crate) fn against_announced_rate(case: &Case<'_>) -> Option<String> {
    if !case.is_virtualbox() {
        return None;
    }
    let named_hz = named_hz(case)?;
    let announced_hz = kernel_tsc_hz(case)? as f64;
    let off_ppm = (announced_hz / named_hz - 1.0) * 1e6;
    (off_ppm.abs() > NAMED_RATE_PPM).then(|| {
        format!(
            "VirtualBox announces {} for a CPU of {}",
            text::hz(announced_hz),
            text::hz(named_hz)
        )
    })
}

/// A desktop CPU's TSC keeps its marketed frequency to some 0.3 %.
pub(crate) const NAMED_RATE_PPM: f64 = 10_000.0;

/// The frequency in the CPU's name: `… CPU @ 3.40GHz`.
pub(crate) fn named_hz(case: &Case<'_>) -> Option<f64> {
    let (_, after) = case.facts.cpu.model.known()?.split_once('@')?;
    let ghz: f64 = after.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (0.1..10.0).contains(&ghz).then_some(ghz * 1e9)
}

/// Whether a TSC without `nonstop_tsc` may stop. VMware, Xen and Hyper-V give
/// a guest one that never does, and do not all say so
/// (arch/x86/kernel/cpu/vmware.c sets `constant_tsc` alone).
pub(crate) fn stops_unless_said(case: &Case<'_>) -> bool {
    !matches!(
        case.kind(),
        Some(HypervisorKind::Vmware | HypervisorKind::Xen | HypervisorKind::HyperV)
    )
}

/// Whether the kernel log says that the TSC was found unstable.
pub(crate) fn marked_unstable(case: &Case<'_>) -> bool {
    case.logged(|event| {
        // For a parameter's sake is another reason, given by itself.
        matches!(event, LogEvent::MarkedUnstable { clocksource, because }
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
    if let Some(cost) = case.cost("rdtsc").filter(|cost| cost.ns.min > TRAPPED_NS) {
        reasons.push(format!(
            "reading it costs {}: the hypervisor answers each read",
            text::duration_ns(cost.ns.median)
        ));
    }
    if let Some(off) = rate_error_ppm(case).filter(|off| off.abs() > WRONG_RATE_PPM) {
        reasons.push(format!("it runs {} off the rate it was taken for", text::ppm(off)));
    }
    if measured.skews.iter().any(|skew| skew.offset_ns.abs() - skew.bound_ns > SKEW_NS) {
        reasons.push("its CPUs do not agree".to_owned());
    }
    reasons
}

/// By how much the TSC's measured rate differs from the rate the kernel took
/// it for; only where the reference does not itself come from the TSC.
pub(crate) fn rate_error_ppm(case: &Case<'_>) -> Option<f64> {
    let measured = case.measured().ok()?;
    // CLOCK_MONOTONIC_RAW under these is the TSC times the announced rate: it
    // would agree with itself.
    let independent = ["hpet", "acpi_pm"].contains(&measured.clocksource.as_deref()?);
    let rate = measured.tsc_rate.filter(|_| independent)?;
    let taken_for = kernel_tsc_hz(case)? as f64;
    let off = (rate.hz / taken_for - 1.0) * 1e6;
    (off.abs() > rate.bound_ppm).then_some(off)
}

/// The TSC's rate as the kernel took it: refined where it refined it.
pub(crate) fn kernel_tsc_hz(case: &Case<'_>) -> Option<u64> {
    let mut taken_for = None;
    for line in case.logged(|event| matches!(event, LogEvent::TscFrequency { .. })) {
        if let LogEvent::TscFrequency { hz, .. } = line.event {
            taken_for = Some(hz);
        }
    }
    taken_for.filter(|hz| *hz > 0)
}
