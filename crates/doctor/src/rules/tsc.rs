//! The TSC as a counter: its rate, and whether all CPUs agree on it.

use facts::hardware::PvclockPage;
use facts::kernel::LogEvent;

use crate::case::trust::{
    NAMED_RATE_PPM, WRONG_RATE_PPM, kernel_tsc_hz, named_hz, rate_error_ppm, stops_unless_said,
};
use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `tsc-not-constant`
pub(crate) fn not_constant(case: &Case<'_>) -> Check {
    let flags = case.flags()?;
    if !flags.tsc {
        return Err(Skipped::DoesNotApply("this CPU has no TSC".to_owned()));
    }
    let in_use = matches!(case.current(), Ok("tsc"));
    let is_host = case.facts.kvm_host.known().is_some();
    match (flags.constant_tsc, flags.nonstop_tsc || !stops_unless_said(case)) {
        (true, true) => return Outcome::fine("it keeps its rate in all states"),
        (constant, _) if !in_use && (constant || !is_host) => {
            return Outcome::fine("the CPU does not vouch for its TSC, and it is not the clock");
        }
        _ => {}
    }
    let missing = if flags.constant_tsc { "nonstop_tsc" } else { "constant_tsc" };
    let finding = Finding::new(
        Severity::Warning,
        match in_use {
            true => format!("tsc is the clock, and the CPU does not vouch for it (no {missing})"),
            false => format!("This KVM host has no {missing}, so its guests' clocks suffer"),
        },
    )
    .evidence(format!("flags in /proc/cpuinfo: {missing} is not among them"));
    match case.is_guest() {
        Some(true) => not_promised(case, finding),
        _ if flags.constant_tsc => stops(case, finding),
        _ => follows_frequency(finding),
    }
    .alone()
}

fn not_promised(case: &Case<'_>, mut finding: Finding) -> Finding {
    finding = finding.why(
        "The host does not promise that this counter keeps its rate. After a migration, or where \
         the host's CPUs change their frequency, time measured by it is off.",
    );
    if case.offers("kvm-clock") {
        finding = finding.remedy(remedies::switch_to(case, "kvm-clock"));
    }
    finding.remedy(Remedy::advice(
        "Have the host announce an invariant TSC, if its CPUs have one (QEMU: -cpu host,+invtsc; \
         libvirt: <feature policy='require' name='invtsc'/>).",
    ))
}

fn stops(case: &Case<'_>, finding: Finding) -> Finding {
    finding
        .why(
            "The counter stops in deep idle states; whoever reads it after such a sleep reads too \
             little.",
        )
        .remedy(remedies::add_parameter(case, "processor.max_cstate=1 intel_idle.max_cstate=1"))
}

fn follows_frequency(finding: Finding) -> Finding {
    finding
        .why(
            "The counter runs faster and slower with the CPU's frequency. Time measured by it is \
             off by as much, and KVM must rewrite each guest's clock page at every change.",
        )
        .remedy(
            Remedy::command(
                "Hold the CPU's frequency.",
                "sudo cpupower frequency-set --governor performance",
            )
            .changes("until the next boot; more power, and a rate that hardly moves"),
        )
}

/// A frequency of the TSC, and who says so.
struct Said {
    who: Witness,
    hz: f64,
}

/// Who names a frequency; the most trustworthy first, after the kernel, which
/// is in question.
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
            Self::Kernel => "by the kernel, at boot",
            Self::Measured => "measured now, against another clock",
            Self::Page => "by the kvm-clock page, now",
            Self::CpuName => "by the CPU's name",
            Self::Cpuid => "by CPUID",
        }
    }

    /// A difference up to this means nothing, ppm.
    fn tolerance_ppm(self) -> f64 {
        match self {
            Self::Kernel => f64::INFINITY,
            Self::Measured => WRONG_RATE_PPM,
            // The page is exact to 0.5 ppb, the kernel's figure to 1 kHz.
            Self::Page => 100.0,
            // CPUID 0x16 gives whole megahertz, and the marketed ones too.
            Self::CpuName | Self::Cpuid => NAMED_RATE_PPM,
        }
    }

    /// Whether it may itself be the one that is wrong.
    fn is_doubtful(self) -> bool {
        matches!(self, Self::CpuName | Self::Cpuid)
    }
}

/// `tsc-frequency`
pub(crate) fn frequency(case: &Case<'_>) -> Check {
    let Some(taken_hz) = kernel_tsc_hz(case).map(|hz| hz as f64) else {
        return Err(Skipped::CouldNot(
            "the kernel log does not tell at which frequency it takes the TSC".to_owned(),
        ));
    };
    let said = frequencies(case, taken_hz);
    let off_ppm = |one: &Said| (one.hz / taken_hz - 1.0) * 1e6;
    let Some(wrong) = said.iter().find(|one| off_ppm(one).abs() > one.who.tolerance_ppm()) else {
        return Outcome::fine(match said.len() {
            1 => format!("{}; no second opinion to compare it with", text::hz(taken_hz)),
            n => format!("{}, on which {n} sources agree", text::hz(taken_hz)),
        });
    };
    let off = off_ppm(wrong);
    let in_use = matches!(case.current(), Ok("tsc"));
    let (severity, what) = match wrong.who {
        Witness::Cpuid => {
            (Severity::Warning, "CPUID and the kernel disagree on the TSC's rate, by")
        }
        Witness::CpuName => (Severity::Warning, "VirtualBox may have the TSC's rate wrong, by"),
        _ if in_use => (Severity::Error, "The TSC runs at another rate than the kernel thinks, by"),
        _ => (Severity::Warning, "The TSC runs at another rate than the kernel thinks, by"),
    };
    let mut finding = Finding::new(severity, format!("{what} {}", text::ppm(off)));
    for one in &said {
        finding = finding.evidence(format!("{}: {}", one.who.name(), text::hz(one.hz)));
    }
    // Time by the TSC is its ticks over the rate it is taken for.
    let in_300_s = 300.0 * (1.0 + off / 1e6);
    finding = finding.why(format!(
        "{} tsc {in_300_s:.2} s pass in 300 s of real time. NTP can steer {WRONG_RATE_PPM} ppm; \
         beyond it the clock is stepped again and again.{}",
        if wrong.who.is_doubtful() { "If the kernel is wrong, by" } else { "By" },
        if in_use { "" } else { " Another source is in use, so the time is right for now." }
    ));
    mend(case, finding, wrong.who, in_use).alone()
}

fn mend(case: &Case<'_>, mut finding: Finding, witness: Witness, in_use: bool) -> Finding {
    if witness.is_doubtful() {
        finding = finding.remedy(
            Remedy::command(
                "See which correction the clock needs under tsc: it shows who is right.",
                "chronyc tracking",
            )
            .changes(remedies::LOOKS),
        );
    }
    if case.is_virtualbox() {
        finding = finding.remedy(
            Remedy::command(
                "VirtualBox measures the host's TSC when it starts: restart it while the host is \
                 idle; if that does not help, on the host, with the VM off:",
                "VBoxManage modifyvm NAME --paravirtprovider legacy",
            )
            .changes("from the VM's next start on: the guest measures the TSC itself"),
        );
    }
    match witness {
        Witness::CpuName | Witness::Cpuid => return finding,
        Witness::Page => finding = finding.remedy(remedies::switch_to(case, "kvm-clock")),
        _ if in_use && case.offers("acpi_pm") => {
            finding = finding.remedy(remedies::switch_to(case, "acpi_pm"));
        }
        _ => {}
    }
    finding.remedy(Remedy::advice(match in_use {
        true => "Reboot once the announced frequency is right: the kernel learns it at boot.",
        false => "Do not switch to tsc before that is mended.",
    }))
}

/// All who name one, in the order in which they are believed.
fn frequencies(case: &Case<'_>, kernel_hz: f64) -> Vec<Said> {
    let measured = rate_error_ppm(case).map(|off_ppm| kernel_hz * (1.0 + off_ppm / 1e6));
    let page = case.facts.pvclock_page.known().and_then(page_hz);
    // Elsewhere the name is no witness: some laptops are sold by another one.
    let named = named_hz(case).filter(|_| case.is_virtualbox());
    let cpuid = case.facts.cpu.cpuid_tsc_hz.known().map(|hz| *hz as f64);
    [
        (Witness::Kernel, Some(kernel_hz)),
        (Witness::Measured, measured),
        (Witness::Page, page),
        (Witness::CpuName, named),
        (Witness::Cpuid, cpuid),
    ]
    .into_iter()
    .filter_map(|(who, hz)| Some(Said { who, hz: hz? }))
    .collect()
}

/// The TSC frequency a kvm-clock page's scale stands for: see
/// arch/x86/kernel/pvclock.c, `pvclock_tsc_khz`.
fn page_hz(page: &PvclockPage) -> Option<f64> {
    let shift = i32::from(page.tsc_shift);
    (page.tsc_to_system_mul != 0 && (-31..=31).contains(&shift))
        .then(|| 1e9 * 2f64.powi(32 - shift) / f64::from(page.tsc_to_system_mul))
}

/// `tsc-across-cpus`
pub(crate) fn across_cpus(case: &Case<'_>) -> Check {
    let measured = case.measured()?;
    if case.facts.cpu.logical_cpus.is_known_and(|cpus| *cpus < 2) {
        return Err(Skipped::DoesNotApply("does not apply: one CPU".to_owned()));
    }
    // An ordered read takes some 20 ns: less than this no program can see.
    const VISIBLE_NS: f64 = 100.0;
    let apart: Vec<_> = measured
        .skews
        .iter()
        .filter(|skew| skew.offset_ns.abs() - skew.bound_ns > VISIBLE_NS)
        .collect();
    let Some(worst) = apart.iter().max_by(|a, b| a.offset_ns.abs().total_cmp(&b.offset_ns.abs()))
    else {
        if measured.skews.is_empty() {
            return Err(Skipped::CouldNot("no pair of CPUs was compared".to_owned()));
        }
        let bound = measured.skews.iter().map(|skew| skew.bound_ns).fold(0.0, f64::max);
        return Outcome::fine(format!(
            "{} compared: no difference beyond the bound, ±{}",
            text::count(measured.skews.len(), "pair of CPUs", "pairs of CPUs"),
            text::duration_ns(bound)
        ));
    };
    let in_use = matches!(case.current(), Ok("tsc"));
    let mut finding = Finding::new(
        if in_use { Severity::Error } else { Severity::Warning },
        format!("The CPUs' TSCs disagree by up to {}", text::duration_ns(worst.offset_ns.abs())),
    );
    for skew in apart.iter().take(4) {
        finding = finding.evidence(format!(
            "TSC of CPU {} minus CPU {}: {} ± {} ({} round trips)",
            skew.cpu_b,
            skew.cpu_a,
            text::signed_duration_ns(skew.offset_ns),
            text::duration_ns(skew.bound_ns),
            skew.round_trips
        ));
    }
    finding
        .why(
            "A thread that moves from one CPU to the other, or two that compare their stamps, see \
             time go backward by as much.",
        )
        .remedy(Remedy::advice(match case.is_guest() {
            Some(true) => "Have the VMM give all vCPUs one TSC offset; use kvm-clock meanwhile.",
            _ => "Update the firmware; do not force tsc meanwhile.",
        }))
        .alone()
}

/// `tsc-firmware`
pub(crate) fn firmware(case: &Case<'_>) -> Check {
    case.log()?;
    let faults: Vec<_> = case
        .logged(|event| *event == LogEvent::TscFault)
        // Said where a quick way failed before a slower one succeeded.
        .filter(|line| !line.text.contains("Fast TSC calibration failed"))
        .collect();
    let Some(first) = faults.first() else {
        return Outcome::fine("the kernel log has no complaint about how the TSC is set up");
    };
    if case.is_guest() == Some(true) {
        return Outcome::fine(format!(
            "\"{}\": the hypervisor does not show that register; harmless in a guest",
            first.text.trim()
        ));
    }
    let mut finding =
        Finding::new(Severity::Note, "The kernel found the TSC set up wrongly by the firmware");
    for line in faults.iter().take(3) {
        finding = finding.evidence(log_evidence(line));
    }
    finding
        .why("The kernel mends what it can at boot; what it cannot, it marks unstable.")
        .remedy(Remedy::advice("Update the firmware."))
        .alone()
}

#[cfg(test)]
mod tests;
