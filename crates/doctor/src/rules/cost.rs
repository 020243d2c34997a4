//! What reading the clock costs, and what it should cost.

use facts::cpu::HypervisorKind;
use instruments::figures;
use instruments::measurements::{Granularity, TRAPPED_RDTSC_NS};

use crate::case::{Case, cost_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

/// Why no instruction's cost says anything about the clock.
const EMULATED: &str = "the whole CPU is emulated in software: see the finding software-emulation";

/// Sources that programs can read without the kernel (the vDSO's clock modes,
/// arch/x86/include/asm/vdso/clocksource.h).
const IN_PROGRAM: [&str; 5] =
    ["arch_sys_counter", "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

/// `reads-enter-kernel`
pub(crate) fn check_enter_kernel(case: &Case<'_>) -> Check {
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
        return Outcome::fine(
            "they do, because of a kernel parameter: see the finding harmful-parameters",
        );
    }
    if current == "xen" && case.xen_emulates_tsc() {
        return Outcome::fine("they do, because Xen emulates RDTSC: see the finding tsc-trapped");
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
    .explain(
        "The vDSO lets programs read the clock without entering the kernel. Programs here do not \
         use it, so a read costs several times as much.",
    )
    .remedy(Remedy::advice(
        "Find out whether your programs run under gVisor or a tracer such as strace (`grep \
         TracerPid /proc/PID/status` shows a tracer), or were built without the vDSO.",
    ))
    .alone()
}

/// `tsc-trapped`
pub(crate) fn check_trapped(case: &Case<'_>) -> Check {
    let cost = case.counter_cost();
    match cost {
        Some(cost) if cost.ns.min <= TRAPPED_RDTSC_NS => return Outcome::fine(cost_evidence(cost)),
        None if !case.xen_emulates_tsc() => {
            case.measured()?;
            return Err(Skipped::CouldNot(format!("{} was not measured", case.counter())));
        }
        _ => {}
    }
    if case.kind() == Some(HypervisorKind::Tcg) {
        return Outcome::fine(EMULATED);
    }
    let (what, who, remedy) = trapper(case);
    let mut finding = Finding::new(Severity::Error, what).evidence_from(cost.map(cost_evidence));
    if let Some(tsc) = case.xen().and_then(|xen| xen.tsc) {
        finding = finding.evidence(format!(
            "Xen's CPUID leaf 3: TSC {}emulated, tsc_mode {}, host's TSC {}reliable",
            if tsc.emulated { "" } else { "not " },
            tsc.mode,
            if tsc.host_reliable { "" } else { "not " },
        ));
    }
    finding
        .explain(format!(
            "The CPU executes {} in 6–25 ns. Here {who}",
            if case.is_arm64() { "this read" } else { "RDTSC" }
        ))
        .remedy(Remedy::advice(remedy))
        .alone()
}

/// What is trapped, who emulates it and why, and the remedy.
fn trapper(case: &Case<'_>) -> (&'static str, &'static str, &'static str) {
    let exits = "Each TSC read exits to the hypervisor";
    match case.kind() {
        _ if case.is_arm64() => (
            "Each read of the processor's counter traps",
            "the kernel or the hypervisor emulates it.",
            "Search the kernel's log for `Trapping CNTVCT access`: it names a processor erratum or \
             the support of 32-bit programs. If that line is missing, the hypervisor traps \
             CNTVCT_EL0, as nested hypervisors may: ask its operator.",
        ),
        Some(HypervisorKind::Xen) => (
            exits,
            "Xen emulates it: the default (tsc_mode 0) if Xen does not trust the host's TSC, or if \
             the domain came from a host with another TSC rate.",
            if case.is_dom0() {
                "Give Xen an invariant TSC, in the firmware's settings, or in the CPU model if Xen \
                 itself runs in a virtual machine. tsc_mode= applies only to other \
                 domains, and clock source xen does not help: it reads the TSC too."
            } else if case.xen().and_then(|xen| xen.tsc).is_some_and(|tsc| !tsc.host_reliable) {
                "Give Xen's host an invariant TSC, in the firmware's settings, or in the CPU model \
                 if Xen itself runs in a virtual machine. tsc_mode=\"native\" (xl.cfg(5)) makes \
                 reads cheap without it, but then the TSC may change its rate and differ between \
                 CPUs."
            } else {
                "Set tsc_mode=\"native\" in the domain's configuration if all its hosts have the \
                 same TSC rate (xl.cfg(5)). Clock source xen reads the TSC as well."
            },
        ),
        Some(HypervisorKind::UserModeLinux) => (
            "Each TSC read traps",
            "the machine on which User-mode Linux runs emulates it.",
            "Run parachron doctor on that machine.",
        ),
        _ if case.is_guest() == Some(false) => (
            "Each TSC read traps into the kernel",
            "the kernel emulates it.",
            "Find out what disables RDTSC: prctl(PR_SET_TSC), or a tracer (`grep TracerPid \
             /proc/PID/status`).",
        ),
        _ => (
            exits,
            "the hypervisor emulates it, usually because the host's TSC runs at another rate than \
             the one advertised to the guest.",
            "Configure the host so that it need not emulate the TSC: hosts of one TSC frequency, \
             or TSC scaling; VirtualBox: TSCMode RealTSCOffset.",
        ),
    }
}

/// What reading each source costs on machines of the last ten years, ns: the
/// fastest seen, and the limit beyond which an old CPU is no explanation.
const NORMS_NS: [(&str, f64, f64); 7] = [
    ("arch_sys_counter", 10.0, 150.0),
    ("tsc", 10.0, 150.0),
    ("kvm-clock", 15.0, 200.0),
    ("hyperv_clocksource_tsc_page", 15.0, 200.0),
    ("xen", 15.0, 1500.0),
    ("hpet", 400.0, 10_000.0),
    ("acpi_pm", 500.0, 10_000.0),
];

/// `read-cost`
pub(crate) fn check_out_of_line(case: &Case<'_>) -> Check {
    case.measured()?;
    let current = case.current()?;
    let Some(cost) = case.clock_cost() else {
        return Err(Skipped::CouldNot("clock_gettime was not measured".to_owned()));
    };
    let Some((_, low, high)) = NORMS_NS.into_iter().find(|(source, ..)| *source == current) else {
        return Err(Skipped::CouldNot(format!("the usual cost of {current} is not known")));
    };
    if case.kind() == Some(HypervisorKind::Tcg) {
        return Outcome::fine(EMULATED);
    }
    // Other rules name those causes.
    let explained = (cost.path.is_kernel() && IN_PROGRAM.contains(&current))
        || case.counter_cost().is_some_and(|cost| cost.ns.min > TRAPPED_RDTSC_NS);
    let shown = figures::time(cost.ns.median);
    if cost.ns.median <= high && !explained {
        return Outcome::fine(format!("{shown} with {current}; usual: {low:.0}–{high:.0} ns"));
    }
    if explained {
        return Outcome::fine(format!(
            "{shown} with {current}: each read enters the kernel or traps, see the finding about \
             that"
        ));
    }
    Finding::new(
        Severity::Warning,
        format!(
            "A clock read costs {}; usual for {current}: {low:.0}–{high:.0} ns",
            figures::time(cost.ns.median)
        ),
    )
    .evidence(cost_evidence(cost))
    .evidence_from(case.counter_cost().map(cost_evidence))
    .explain(
        "Programs that read the clock often are slower. Or the machine was busy during the \
         measurement.",
    )
    .remedy(
        Remedy::command("Measure again, for longer, while the machine is idle.", "parachron bench")
            .changes(remedies::READ_ONLY),
    )
    .alone()
}

/// `clock-order`
pub(crate) fn check_order(case: &Case<'_>) -> Check {
    let measured = case.measured()?;
    // Under another clock source the TSC is no clock of the system: the rule
    // tsc-across-cpus reports what programs that read it would see.
    let is_clock = |name: &str| !name.starts_with("TSC") || matches!(case.current(), Ok("tsc"));
    let (backward, steady): (Vec<_>, Vec<_>) = measured
        .order
        .iter()
        .filter(|order| is_clock(&order.clock))
        .partition(|order| order.backward > 0);
    if measured.order.is_empty() {
        return Err(Skipped::CouldNot("no clock's order was measured".to_owned()));
    }
    let stopped: Vec<_> = measured.granularity.iter().filter(|clock| stands_still(clock)).collect();
    if !stopped.is_empty() {
        return Ok(Outcome::Found(stopped.into_iter().map(stopped_finding).collect()));
    }
    if backward.is_empty() {
        let readings: u64 = steady.iter().map(|order| order.readings).sum();
        return Outcome::fine(format!("no step back in {readings} readings"));
    }
    let mut findings = Vec::new();
    for order in backward {
        let finding = Finding::new(Severity::Error, format!("{} went backward", order.clock))
            .evidence(format!(
                "{} of {} readings were below the previous one, by up to {}",
                order.backward,
                order.readings,
                figures::time(order.largest_backward_ns)
            ))
            .explain(
                "Programs assume that this clock never goes backward: negative intervals overflow, \
                 and timeouts never expire.",
            )
            .remedy(if case.offers("kvm-clock") && case.current() != Ok("kvm-clock") {
                remedies::switch_to(case, "kvm-clock")
            } else {
                Remedy::advice(
                    "Switch to another clock source (see the finding slow-clocksource for a safe \
                     one), and report to the host's operator that its TSCs disagree.",
                )
            });
        // It sets the time of day alone.
        let by_host =
            remedies::unbind_hyperv_sync(case).filter(|_| order.clock == "CLOCK_REALTIME");
        findings.push(match by_host {
            Some(unbind) => finding.remedy(unbind),
            None => finding,
        });
    }
    Ok(Outcome::Found(findings))
}

/// Whether a clock that moves at least at each tick never moved.
fn stands_still(clock: &Granularity) -> bool {
    let moves = ["CLOCK_MONOTONIC", "CLOCK_REALTIME", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW"];
    clock.smallest_step_ns.is_none() && moves.contains(&clock.clock.as_str())
}

fn stopped_finding(clock: &Granularity) -> Finding {
    Finding::new(Severity::Error, format!("{} stands still", clock.clock))
        .evidence(format!("{}: all readings were the same", clock.clock))
        .explain(
            "The clock source does not count, or the kernel cannot read it: no timeout expires, \
             and no timestamp is right.",
        )
        .remedy(
            Remedy::command(
                "Choose another clock source from the list that this command prints.",
                "cat /sys/devices/system/clocksource/clocksource0/available_clocksource",
            )
            .changes(remedies::READ_ONLY),
        )
        .remedy(Remedy::advice(
            "Reboot if no other source is listed, and report the source that stopped to the \
             host's operator.",
        ))
}

#[cfg(test)]
mod tests;
