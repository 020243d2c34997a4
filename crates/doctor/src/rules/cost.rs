//! What reading the clock costs, against what it should.

use crate::case::trust::TRAPPED_NS;
use crate::case::{Case, cost_line};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

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
            "does not apply: {current} can only be read through the kernel"
        )));
    }
    if !cost.path.is_kernel() {
        return Outcome::fine(cost_line(cost));
    }
    // Other rules name these causes.
    let by_parameter = case.asks("vdso", "0")
        || current == "kvm-clock" && case.parameter("no-kvmclock-vsyscall").is_some();
    if by_parameter {
        return Outcome::fine("they do, by a kernel parameter: see that finding");
    }
    if matches!(current, "kvm-clock" | "xen") {
        return Outcome::fine(format!("they do: see the finding about {current}"));
    }
    Finding::new(
        Severity::Error,
        format!("Every reading of the clock is a system call, though {current} needs none"),
    )
    .evidence(cost_line(cost))
    .evidence(format!("current_clocksource: {current}"))
    .why(
        "The kernel gives every program code and data to read the clock by itself (vDSO). Here \
         that path is closed, and a reading costs several times as much.",
    )
    .remedy(Remedy::advice(
        "Look for what runs programs here: gVisor, a tracer (strace, ptrace), or a program \
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
        return Outcome::fine(cost_line(cost));
    }
    let bare_metal = case.is_guest() == Some(false);
    let (what, who) = match bare_metal {
        true => ("Each reading of the TSC is trapped", "the kernel answers it instead."),
        false => (
            "Each reading of the TSC leaves the virtual machine",
            "the hypervisor answers it instead, as it does to hide that this host's TSC runs at \
             another rate than the guest was told.",
        ),
    };
    Finding::new(Severity::Error, what)
        .evidence(cost_line(cost))
        .why(format!("The CPU answers RDTSC in 6–25 ns. Here {who}"))
        .remedy(Remedy::advice(match bare_metal {
            true => "Look for what forbids it: prctl(PR_SET_TSC), or a tracer.",
            false => {
                "Ask the host for a TSC that is not emulated: hosts of one frequency, or TSC \
                 scaling; Xen: tsc_mode=\"native\"; VirtualBox: TSCMode RealTSCOffset."
            }
        }))
        .alone()
}

/// What reading each source costs on machines of the last ten years, ns: the
/// fastest seen, and what is no longer explained by an old CPU.
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
        return Err(Skipped::CouldNot(format!("no norm is known for {current}")));
    };
    // Other rules name those causes.
    let explained = (cost.path.is_kernel() && IN_PROGRAM.contains(&current))
        || case.cost("rdtsc").is_some_and(|cost| cost.ns.min > TRAPPED_NS);
    if cost.ns.median <= high || explained {
        return Outcome::fine(format!(
            "{} with {current}, where {low:.0}–{high:.0} ns is usual",
            text::duration_ns(cost.ns.median)
        ));
    }
    let mut finding = Finding::new(
        Severity::Warning,
        format!(
            "Reading the clock costs {}, where {current} usually costs {low:.0}–{high:.0} ns",
            text::duration_ns(cost.ns.median)
        ),
    )
    .evidence(cost_line(cost));
    if let Some(rdtsc) = case.cost("rdtsc") {
        finding = finding.evidence(cost_line(rdtsc));
    }
    finding
        .why("Programs that read the clock often feel it; or the machine was busy just now.")
        .remedy(
            Remedy::command("Measure again, longer, when nothing else runs.", "parachron bench")
                .changes(remedies::LOOKS),
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
                    "{} of {} readings were smaller than the one before, by up to {}",
                    order.backward,
                    order.readings,
                    text::duration_ns(order.largest_backward_ns)
                ))
                .why(
                    "Programs take it for granted that this clock never does: negative intervals \
                     overflow, time-outs never end.",
                )
                .remedy(match case.offers("kvm-clock") && case.current() != Ok("kvm-clock") {
                    true => remedies::switch_to(case, "kvm-clock"),
                    false => Remedy::advice(
                        "Use another clock source; tell the host's keeper that its TSCs disagree.",
                    ),
                }),
        );
    }
    Ok(Outcome::Found(findings))
}

#[cfg(test)]
mod tests;
