//! What reading the clock costs, and what it should cost.

use instruments::figures;

use crate::case::trust::TRAPPED_NS;
use crate::case::{Case, cost_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome, Skipped};
use crate::remedies;

/// Sources that programs can read without the kernel (the vDSO's clock modes,
/// arch/x86/include/asm/vdso/clocksource.h).
const IN_PROGRAM: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

/// `reads-enter-kernel`
pub(crate) fn enter_kernel(case: &Case<'_>) -> Check {
    case.measured()?;
    let current = case.current()?;
    let Some(cost) = case.clock_cost() else {
        return Err(Skipped::CouldNot("clock_gettime was not measured".to_owned()));
    };
    if !IN_PROGRAM.contains(&current) {
        return Err(Skipped::DoesNotApply(format!(
            "does not apply: {current} needs a system call"
        )));
    }
    if !cost.path.is_kernel() {
        return Outcome::fine(cost_evidence(cost));
    }
    // Other rules name these causes.
    let by_parameter = case.sets("vdso", "0")
        || current == "kvm-clock" && case.parameter("no-kvmclock-vsyscall").is_some();
    if by_parameter {
        return Outcome::fine("they do, because of a kernel parameter: see that finding");
    }
    if matches!(current, "kvm-clock" | "xen") {
        return Outcome::fine(format!("they do: see the finding about {current}"));
    }
    Finding::new(
        Severity::Error,
        format!("Every clock read is a system call, though {current} needs none"),
    )
    .evidence(cost_evidence(cost))
    .evidence(format!("current_clocksource: {current}"))
    .why(
        "The vDSO lets programs read the clock without the kernel. Here they do not use it, and a \
         read costs several times as much.",
    )
    .remedy(Remedy::advice(
        "Find out what runs programs here: gVisor, a tracer (strace, ptrace), or a program \
         linked without the vDSO.",
    ))
    .alone()
}

/// `tsc-trapped`
pub(crate) fn trapped(case: &Case<'_>) -> Check {
    case.measured()?;
    let Some(cost) = case.cost("rdtsc") else {
        return Err(Skipped::CouldNot("RDTSC was not measured".to_owned()));
    };
    if cost.ns.min <= TRAPPED_NS {
        return Outcome::fine(cost_evidence(cost));
    }
    let bare_metal = case.is_guest() == Some(false);
    let (what, who) = if bare_metal {
        ("Each TSC read traps into the kernel", "the kernel emulates it.")
    } else {
        (
            "Each TSC read exits to the hypervisor",
            "the hypervisor emulates it, mostly because the host's TSC runs at another rate than \
             the one advertised to the guest.",
        )
    };
    Finding::new(Severity::Error, what)
        .evidence(cost_evidence(cost))
        .why(format!("The CPU executes RDTSC in 6–25 ns. Here {who}"))
        .remedy(Remedy::advice(if bare_metal {
            "Find out what forbids RDTSC: prctl(PR_SET_TSC), or a tracer."
        } else {
            "Configure the host not to emulate the TSC: hosts of one frequency, or TSC scaling; \
             Xen: tsc_mode=\"native\"; VirtualBox: TSCMode RealTSCOffset."
        }))
        .alone()
}

/// What reading each source costs on machines of the last ten years, ns: the
/// fastest seen, and the limit beyond which an old CPU is no explanation.
const NORMS_NS: [(&str, f64, f64); 6] = [
    ("tsc", 10.0, 150.0),
    ("kvm-clock", 15.0, 200.0),
    ("hyperv_clocksource_tsc_page", 15.0, 200.0),
    ("xen", 15.0, 1500.0),
    ("hpet", 400.0, 10_000.0),
    ("acpi_pm", 500.0, 10_000.0),
];

/// `read-cost`
pub(crate) fn out_of_line(case: &Case<'_>) -> Check {
    case.measured()?;
    let current = case.current()?;
    let Some(cost) = case.clock_cost() else {
        return Err(Skipped::CouldNot("clock_gettime was not measured".to_owned()));
    };
    let Some((_, low, high)) = NORMS_NS.into_iter().find(|(source, ..)| *source == current) else {
        return Err(Skipped::CouldNot(format!("the usual cost of {current} is not known")));
    };
    // Other rules name those causes.
    let explained = (cost.path.is_kernel() && IN_PROGRAM.contains(&current))
        || case.cost("rdtsc").is_some_and(|cost| cost.ns.min > TRAPPED_NS);
    if cost.ns.median <= high || explained {
        return Outcome::fine(format!(
            "{} with {current}; usual: {low:.0}–{high:.0} ns",
            figures::time(cost.ns.median)
        ));
    }
    let mut finding = Finding::new(
        Severity::Warning,
        format!(
            "A clock read costs {}; usual for {current}: {low:.0}–{high:.0} ns",
            figures::time(cost.ns.median)
        ),
    )
    .evidence(cost_evidence(cost));
    if let Some(rdtsc) = case.cost("rdtsc") {
        finding = finding.evidence(cost_evidence(rdtsc));
    }
    finding
        .why("It slows programs that read the clock often; or the machine was busy just now.")
        .remedy(
            Remedy::command("Measure again, for longer, on the idle machine.", "parachron bench")
                .changes(remedies::READ_ONLY),
        )
        .alone()
}

/// `clock-order`
pub(crate) fn order(case: &Case<'_>) -> Check {
    let measured = case.measured()?;
    let (backward, steady): (Vec<_>, Vec<_>) =
        measured.order.iter().partition(|order| order.backward > 0);
    if measured.order.is_empty() {
        return Err(Skipped::CouldNot("no clock's order was measured".to_owned()));
    }
    if backward.is_empty() {
        let readings: u64 = steady.iter().map(|order| order.readings).sum();
        return Outcome::fine(format!("no step back in {readings} readings"));
    }
    let mut findings = Vec::new();
    for order in backward {
        findings.push(
            Finding::new(Severity::Error, format!("{} went backward", order.clock))
                .evidence(format!(
                    "{} of {} readings were below the previous one, by up to {}",
                    order.backward,
                    order.readings,
                    figures::time(order.largest_backward_ns)
                ))
                .why(
                    "Programs rely on this clock never going back: negative intervals overflow, \
                     timeouts never expire.",
                )
                .remedy(if case.offers("kvm-clock") && case.current() != Ok("kvm-clock") {
                    remedies::switch_to(case, "kvm-clock")
                } else {
                    Remedy::advice(
                        "Use another clock source, and report to the host's operator that its \
                         TSCs disagree.",
                    )
                }),
        );
    }
    Ok(Outcome::Found(findings))
}

#[cfg(test)]
mod tests;
