//! The TSC as a counter: its rate, and whether all CPUs agree on it.

mod calibrations;

use facts::cpu::HypervisorKind;
use instruments::figures;
use instruments::measurements::Measurements;

use crate::case::Case;
use crate::case::trust::{
    NAMED_RATE_PPM, WRONG_RATE_PPM, named_hz, page_hz, rate_error_ppm, stops_unless_flagged,
};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};
use crate::text;

/// `tsc-not-constant`
pub(crate) fn check_not_constant(case: &Case<'_>) -> Check {
    let flags = case.flags()?;
    if !flags.tsc {
        return Err(Skipped::DoesNotApply("this CPU has no TSC".to_owned()));
    }
    perhaps(case.cpuid_tsc_hz())?;
    let xen = perhaps(case.hypervisor())?.and_then(|hypervisor| hypervisor.xen);
    if xen.and_then(|xen| xen.tsc).is_some_and(|tsc| tsc.emulated) {
        return Outcome::fine("Xen emulates it, at a constant rate");
    }
    let in_use = matches!(case.current(), Ok("tsc"));
    let is_host = case.kvm_host().is_ok();
    match (flags.constant_tsc, flags.nonstop_tsc || !stops_unless_flagged(case)) {
        (true, true) => return Outcome::fine("it keeps its rate in all power states"),
        (constant, _) if !in_use && (constant || !is_host) => {
            return Outcome::fine(
                "the CPU does not guarantee its TSC, but the TSC is not the clock source",
            );
        }
        _ => {}
    }
    let missing = if flags.constant_tsc { "nonstop_tsc" } else { "constant_tsc" };
    let finding = Finding::new(
        Severity::Warning,
        if in_use {
            format!(
                "The clock source is tsc, but the CPU does not guarantee its rate (no {missing})"
            )
        } else {
            format!("This KVM host's TSC has no {missing}: the clocks of its guests suffer")
        },
    )
    .evidence(format!("/proc/cpuinfo: flag {missing} is missing"));
    match case.is_guest() {
        Some(true) => not_guaranteed(case, finding),
        _ if flags.constant_tsc => stops(case, finding),
        _ => follows_frequency(finding),
    }
    .alone()
}

fn not_guaranteed(case: &Case<'_>, mut finding: Finding) -> Finding {
    finding = finding.explain(
        "The host does not guarantee the rate of this counter. After a migration, or if the host's \
         CPUs change their frequency, time measured by it is wrong.",
    );
    let page = ["kvm-clock", "xen"].into_iter().find(|page| case.offers(page));
    finding = finding.remedies(page.map(|page| remedies::switch_to(case, page)));
    finding.remedy(Remedy::advice(match case.kind() {
        Some(HypervisorKind::Tcg) => {
            "Start QEMU with -accel kvm -cpu host,+invtsc: emulation (TCG) has no invariant TSC."
        }
        Some(HypervisorKind::Xen) if case.is_dom0() => {
            "Check the processor: Xen passes the flag to its control domain if the processor has \
             it. This one does not have it, or Xen itself runs in a virtual machine (then add \
             invtsc to that machine's CPU model)."
        }
        Some(HypervisorKind::Xen) => {
            "Set nomigrate=1 in the domain's configuration on the host, which advertises an \
             invariant TSC (xl.cfg(5)); the domain can then not be migrated or saved."
        }
        Some(HypervisorKind::Kvm) | None => {
            "Advertise an invariant TSC on the host, if its CPUs have one (QEMU: -cpu \
             host,+invtsc; libvirt: <feature policy='require' name='invtsc'/>). QEMU then refuses \
             to migrate or save the guest unless the TSC's frequency is set too (tsc-frequency=; \
             libvirt: <timer name='tsc' frequency=…/>)."
        }
        _ => "Advertise an invariant TSC on the host, if its CPUs have one.",
    }))
}

fn stops(case: &Case<'_>, finding: Finding) -> Finding {
    finding
        .explain("The counter stops in deep idle states, so the clock loses the time spent there.")
        .remedy(remedies::add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1"))
}

fn follows_frequency(finding: Finding) -> Finding {
    finding
        .explain(
            "The counter follows the CPU's frequency. Time measured by it is wrong by the same \
             ratio, and KVM must rewrite each guest's clock page at every change.",
        )
        .remedy(
            Remedy::command(
                "Fix the CPU's frequency.",
                "sudo cpupower frequency-set --governor performance",
            )
            .changes("the frequency governor, until the next boot: more power, a steadier rate"),
        )
}

/// A frequency of the TSC, and its source.
struct KnownTscFrequency {
    from: Witness,
    hz: f64,
}

/// The sources of a frequency: the kernel, whose value is in question, then the
/// others, most trustworthy first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Witness {
    Kernel,
    Measured,
    Page,
    CpuName,
    Cpuid,
}

impl Witness {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel, at boot",
            Self::Measured => "measured now, against another clock",
            Self::Page => "kvm-clock page, now",
            Self::CpuName => "name of the CPU",
            Self::Cpuid => "CPUID",
        }
    }

    /// The tolerated difference, ppm.
    fn tolerance_ppm(self) -> f64 {
        match self {
            Self::Kernel => f64::INFINITY,
            Self::Measured => WRONG_RATE_PPM,
            // The page is exact to 0.5 ppb, the kernel's figure to 1 kHz.
            Self::Page => 100.0,
            // CPUID 0x16 gives the marketed frequency, in whole megahertz.
            Self::CpuName | Self::Cpuid => NAMED_RATE_PPM,
        }
    }

    /// Whether it may itself be wrong.
    fn is_doubtful(self) -> bool {
        matches!(self, Self::CpuName | Self::Cpuid)
    }
}

/// `tsc-frequency`
pub(crate) fn check_frequency(case: &Case<'_>) -> Check {
    if case.is_log_alone()
        && let Some(finding) = calibrations::several_rates(case.log()?)
    {
        return finding.alone();
    }
    let Some(kernel_hz) = case.kernel_tsc_hz().map(|hz| hz as f64) else {
        return Err(Skipped::CouldNot(
            "the kernel log does not show the TSC frequency that the kernel assumes".to_owned(),
        ));
    };
    let all = frequencies(case, kernel_hz);
    let off_ppm = |frequency: &KnownTscFrequency| (frequency.hz / kernel_hz - 1.0) * 1e6;
    let Some(wrong) = all.iter().find(|source| off_ppm(source).abs() > source.from.tolerance_ppm())
    else {
        return Outcome::fine(match all.len() {
            1 => format!("{}; no other source to compare it with", figures::hz(kernel_hz)),
            n => format!("{}; {n} sources agree", figures::hz(kernel_hz)),
        });
    };
    let off = off_ppm(wrong);
    let in_use = matches!(case.current(), Ok("tsc"));
    let (if_in_use, what) = match wrong.from {
        Witness::Cpuid => (Severity::Warning, "CPUID and the kernel disagree on the TSC's rate by"),
        Witness::CpuName => (Severity::Warning, "VirtualBox may advertise a wrong TSC rate, by"),
        _ => (Severity::Error, "The TSC's rate differs from the kernel's assumption by"),
    };
    let severity = if in_use { if_in_use } else { Severity::Warning };
    let mut finding = Finding::new(severity, format!("{what} {}", figures::ppm(off)));
    for one in &all {
        finding = finding.evidence(format!("{}: {}", one.from.name(), figures::hz(one.hz)));
    }
    // Time by the TSC is its ticks over the assumed rate.
    let in_300_s = 300.0 * (1.0 + off / 1e6);
    finding = finding.explain(format!(
        "{} tsc counts {in_300_s:.2} s in 300 s. NTP can correct {WRONG_RATE_PPM} ppm; beyond that \
         it steps the clock repeatedly.{}",
        if wrong.from.is_doubtful() { "If the kernel's rate is wrong," } else { "Clock source" },
        if in_use { "" } else { " Another source is in use, so the clock is right for now." }
    ));
    with_remedies(case, finding, wrong, in_use).alone()
}

fn with_remedies(
    case: &Case<'_>,
    mut finding: Finding,
    right: &KnownTscFrequency,
    in_use: bool,
) -> Finding {
    let witness = right.from;
    if witness.is_doubtful() {
        finding = finding.remedy(
            Remedy::command(
                "Check the frequency correction with tsc as clock source: it shows which rate is \
                 right.",
                "chronyc tracking",
            )
            .changes(remedies::READ_ONLY),
        );
    }
    if case.is_virtualbox() {
        finding = finding.remedy(
            Remedy::command(
                "Restart VirtualBox while the host is idle: it measures the host's TSC when it \
                 starts. If that does not help, on the host, with the VM off:",
                "VBoxManage modifyvm NAME --paravirtprovider legacy",
            )
            .changes("the VM from its next start on: the guest measures the TSC itself"),
        );
        if !witness.is_doubtful() {
            finding = finding.remedy(
                Remedy::quoting(
                    "To keep the provider, state the measured rate instead, on the host, with the VM \
                     off:",
                    "VBoxManage setextradata NAME VBoxInternal/TM/TSCTicksPerSecond {}",
                    &[&format!("{:.0}", right.hz)],
                )
                .changes("the VM from its next start on, until the key is set to nothing"),
            );
        }
    }
    match witness {
        Witness::CpuName | Witness::Cpuid => return finding,
        Witness::Page => finding = finding.remedy(remedies::switch_to(case, "kvm-clock")),
        _ if in_use && case.offers("acpi_pm") => {
            finding = finding.remedy(remedies::switch_to(case, "acpi_pm"));
        }
        _ => {}
    }
    finding.remedy(Remedy::advice(if in_use {
        "Reboot once the advertised frequency is right: the kernel reads it only at boot."
    } else {
        "Keep the present clock source; do not switch to tsc before the frequency is right."
    }))
}

/// The frequencies of all sources, in the order of [`Witness`].
fn frequencies(case: &Case<'_>, kernel_hz: f64) -> Vec<KnownTscFrequency> {
    let measured = rate_error_ppm(case).map(|off_ppm| kernel_hz * (1.0 + off_ppm / 1e6));
    let page = case.pvclock_page().ok().and_then(page_hz);
    // Elsewhere the name proves nothing: some laptops' names hold another
    // frequency.
    let named = named_hz(case).filter(|_| case.is_virtualbox());
    let cpuid = case.cpuid_tsc_hz().ok().map(|hz| *hz as f64);
    [
        (Witness::Kernel, Some(kernel_hz)),
        (Witness::Measured, measured),
        (Witness::Page, page),
        (Witness::CpuName, named),
        (Witness::Cpuid, cpuid),
    ]
    .into_iter()
    .filter_map(|(from, hz)| Some(KnownTscFrequency { from, hz: hz? }))
    .collect()
}

/// `tsc-across-cpus`
pub(crate) fn check_across_cpus(case: &Case<'_>) -> Check {
    let measured = case.measured()?;
    if case.logical_cpus().is_ok_and(|cpus| *cpus < 2) {
        return Err(Skipped::DoesNotApply("does not apply: one CPU".to_owned()));
    }
    // An ordered read takes some 20 ns: a program cannot see less than this.
    const VISIBLE_NS: f64 = 100.0;
    let disagreeing: Vec<_> = measured
        .skews
        .iter()
        .filter(|skew| skew.offset_ns.abs() - skew.bound_ns > VISIBLE_NS)
        .collect();
    let counter = case.counter();
    let in_use = matches!(case.current(), Ok("tsc" | "arch_sys_counter"));
    // An offset that changes shows in the order alone; under tsc clock-order has it.
    let backward = measured.order.iter().find(|order| {
        order.clock.starts_with("TSC") && order.largest_backward_ns > VISIBLE_NS && !in_use
    });
    let offsets = disagreeing.iter().map(|skew| skew.offset_ns.abs());
    let worst_ns = offsets.chain(backward.map(|order| order.largest_backward_ns));
    let Some(worst_ns) = worst_ns.max_by(f64::total_cmp) else {
        return no_difference(measured);
    };
    // Each vCPU has a page with its own TSC's values.
    let corrected = case.current() == Ok("kvm-clock") && !crate::rules::kvm::is_stable(case);
    let severity = match (in_use, corrected) {
        (true, _) => Severity::Error,
        (false, true) => Severity::Note,
        (false, false) => Severity::Warning,
    };
    let mut finding = Finding::new(
        severity,
        format!("The CPUs' {counter}s disagree by up to {}", figures::time(worst_ns)),
    );
    if let Some(order) = backward {
        finding = finding.evidence(format!(
            "{}: {} of {} readings were below the previous one, by up to {}",
            order.clock,
            order.backward,
            order.readings,
            figures::time(order.largest_backward_ns)
        ));
    }
    for skew in disagreeing.iter().take(4) {
        finding = finding.evidence(format!(
            "{counter} of CPU {} minus CPU {}: {} ± {} ({} round trips)",
            skew.cpu_b,
            skew.cpu_a,
            figures::signed(skew.offset_ns, figures::time),
            figures::time(skew.bound_ns),
            skew.round_trips
        ));
    }
    finding
        .explain(if corrected {
            "kvm-clock compensates for it: each vCPU has its own page. Programs that read the TSC \
             themselves can see it go backward by that much between these CPUs."
        } else {
            "A thread that migrates between these CPUs, or two threads that compare their \
             timestamps, can see time go backward by that much."
        })
        .remedy(Remedy::advice(one_offset(case)))
        .alone()
}

/// What makes the CPUs' counters agree.
fn one_offset(case: &Case<'_>) -> &'static str {
    if case.is_arm64() {
        "Make the VMM set one counter offset for all vCPUs: KVM_ARM_SET_COUNTER_OFFSET, or CNTVCT \
         by KVM_SET_ONE_REG, which KVM keeps for the whole machine. Until then, pin each program \
         that compares timestamps to one CPU: there is no other clock source."
    } else if case.current() == Ok("kvm-clock") {
        "Make the VMM set one TSC offset for all vCPUs."
    } else if case.is_guest() == Some(true) {
        "Switch to kvm-clock, and make the VMM set one TSC offset for all vCPUs."
    } else {
        "Update the firmware; until then do not force tsc."
    }
}

/// What the rule says where no two disagree.
fn no_difference(measured: &Measurements) -> Check {
    // A wider bound shows nothing of what programs see.
    const USEFUL_NS: f64 = 1000.0;
    if measured.skews.is_empty() {
        return Err(Skipped::CouldNot("no pair of CPUs was compared".to_owned()));
    }
    let bound = measured.skews.iter().map(|skew| skew.bound_ns).fold(0.0, f64::max);
    if bound > USEFUL_NS {
        return Err(Skipped::CouldNot(format!(
            "the offsets are known only to ±{}: the machine is busy, or each counter read is slow",
            figures::time(bound)
        )));
    }
    Outcome::fine(format!(
        "{} compared: no offset beyond the bound, ±{}",
        text::count(measured.skews.len(), "pair of CPUs", "pairs of CPUs"),
        figures::time(bound)
    ))
}

#[cfg(test)]
mod tests;
