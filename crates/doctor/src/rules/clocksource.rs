//! Which clock source is in use, and whether a better one is available.

use facts::clocksource::known_source;
use facts::cpu::HypervisorKind;
use facts::kernel::LogEvent;
use instruments::figures;

use crate::case::trust::{against_advertised_rate, against_tsc, is_tsc};
use crate::case::{Case, cost_evidence, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};
use crate::text;

/// `clock-sources-readable`
pub(crate) fn check_readable(case: &Case<'_>) -> Check {
    let (Err(why), Err(_)) = (case.current(), case.available()) else {
        return Outcome::fine("the kernel lists its clock sources");
    };
    if case.lacks_sys() {
        return Err(why);
    }
    Finding::new(
        Severity::Warning,
        "The kernel's clock sources are not readable, so most rules cannot be checked",
    )
    .evidence(why.to_string())
    .explain(
        "The clock source determines what a clock read costs and what can make the clock wrong. \
         The list is in /sys, which is missing or not readable here.",
    )
    .remedy(
        Remedy::command(
            "Mount sysfs, then run parachron doctor again.",
            "sudo mount -t sysfs sysfs /sys",
        )
        .changes(
            "the mount, until the next boot; in a container its manager decides what is mounted",
        ),
    )
    .alone()
}

/// `slow-clocksource`
pub(crate) fn check_slow(case: &Case<'_>) -> Check {
    let current = case.current()?;
    perhaps(case.hypervisor())?;
    let Some(cost) = slowness(case, current) else {
        if known_source(current).is_none() {
            let unknown = format!("{current}, which this version of parachron does not know");
            return Err(Skipped::CouldNot(unknown));
        }
        return Outcome::fine(not_slow(case, current));
    };
    if case.kind() == Some(HypervisorKind::UserModeLinux) {
        return in_user_mode_linux(case, current, &cost).alone();
    }
    let against = against_tsc(case);
    let better = better_source(case, &against);
    let slow = match step(case, current) {
        Some(step) => format!("The clock advances only every {step}: {current}"),
        None => format!("Every clock read is slow: {current}"),
    };
    let mut finding = match better {
        // Not measured, so not an error yet.
        Some(better) if current == "xen" && case.clock_cost().is_none() => Finding::new(
            Severity::Warning,
            format!(
                "The clock source is xen, which takes a system call for each read in most clouds, \
                 and not {better}"
            ),
        ),
        Some(better) => Finding::new(Severity::Error, format!("{slow} instead of {better}")),
        None => Finding::new(Severity::Error, format!("{slow} is in use")),
    }
    .evidence(format!("current_clocksource: {current}"));
    if let Ok(available) = case.available() {
        finding = finding.evidence(format!("available_clocksource: {}", available.join(" ")));
    }
    finding = finding.evidence_from(case.clock_cost().map(cost_evidence));
    let switched = case.logged(|event| matches!(event, LogEvent::Switched { to } if to == current));
    finding = finding.evidence_from(switched.last().map(log_evidence));
    let pinned = ["clocksource", "clock"].iter().find_map(|name| {
        let value = case.parameter(name).filter(|value| !value.is_empty())?;
        Some(format!("{name}={value}")).filter(|_| value == current || *name == "clock")
    });
    finding = finding
        .evidence_from(pinned.as_ref().map(|pinned| format!("kernel command line: {pinned}")))
        .explain(format!(
            "{cost} Databases, tracing and network servers read the clock thousands of times a \
             second; ClickHouse and Redis warn about such a source at startup. tsc and the \
             hypervisors' clock pages take 20–60 ns, without a system call."
        ));
    with_remedies(case, finding, better, against, pinned).alone()
}

/// Where programs read a source that is not slow.
fn not_slow(case: &Case<'_>, current: &str) -> String {
    if current == "xen" && case.xen_emulates_tsc() {
        return "xen, which reads the TSC: see the finding tsc-trapped".to_owned();
    }
    let by_parameter = case.sets("vdso", "0");
    if by_parameter || case.clock_cost().is_some_and(|cost| cost.path.is_kernel()) {
        return format!(
            "{current}; its reads enter the kernel for another reason: see the finding \
             reads-enter-kernel"
        );
    }
    format!("{current}, which programs read without a system call")
}

/// The step of a clock that counts timer interrupts.
fn step(case: &Case<'_>, current: &str) -> Option<String> {
    if !current.ends_with("jiffies") {
        return None;
    }
    // The same for every clock but the coarse ones, which step no finer anyway.
    let seen = || {
        let all = &case.measured().ok()?.granularity;
        let one = all.iter().find(|resolution| resolution.clock == "CLOCK_MONOTONIC")?;
        one.smallest_step_ns.map(|ns| ns as f64)
    };
    let configured = || case.tick_hz().map(|hz| 1e9 / hz);
    let ns = seen().or_else(configured).or_else(|| logged_tick_ns(case, current));
    Some(ns.map_or_else(|| "1 to 10 ms".to_owned(), figures::time))
}

/// A tick by the log's `max_idle_ns`: half of what 2^32 − 1 ticks are at a rate
/// 11 % lower (kernel/time/clocksource.c, `clocks_calc_max_nsecs` and
/// `clocksource_max_adjustment`). Of 7645041785100000 ns: 4.00 ms, HZ=250.
fn logged_tick_ns(case: &Case<'_>, source: &str) -> Option<f64> {
    let start = format!("clocksource: {source}: mask: 0xffffffff ");
    let line = case.logged(|_| true).find(|line| line.text.starts_with(&start))?;
    let (_, rest) = line.text.split_once("max_idle_ns: ")?;
    let max_idle_ns: f64 = rest.split_whitespace().next()?.parse().ok()?;
    let tick_ns = max_idle_ns / (f64::from(u32::MAX) / 2.0 * 0.89);
    (tick_ns > 0.0).then_some(tick_ns)
}

fn in_user_mode_linux(case: &Case<'_>, current: &str, cost: &str) -> Finding {
    let finding = Finding::new(
        Severity::Note,
        format!("Every clock read is slow: {current} is the only source of User-mode Linux"),
    )
    .evidence(format!("current_clocksource: {current}"))
    .evidence_from(case.clock_cost().map(cost_evidence));
    finding.explain(cost).remedy(Remedy::advice(
        "Run programs that read the clock often in a virtual machine or a container instead.",
    ))
}

fn with_remedies(
    case: &Case<'_>,
    mut finding: Finding,
    better: Option<&str>,
    against: Vec<String>,
    pinned: Option<String>,
) -> Finding {
    if let Some(better) = better {
        finding = finding.remedy(remedies::switch_to(case, better)).remedy(match &pinned {
            Some(pinned) => remedies::remove_parameter(case, pinned),
            None => remedies::add_parameter(case, &format!("clocksource={better}")),
        });
    }
    if better != Some("tsc") && !against.is_empty() {
        let sources = match against_advertised_rate(case) {
            Some(_) => "tsc or kvm-clock",
            None => "tsc",
        };
        let reasons = text::list(&against);
        // What the command line excludes, it can admit again.
        if let Some(parameter) = excluding_parameter(case).filter(|_| against.len() == 1) {
            return finding.remedy(remedies::remove_parameter(case, parameter));
        }
        finding = finding.remedy(Remedy::advice(format!(
            "Keep the present source for now; {sources} would be faster but unsafe here \
             ({reasons}). Fix that first, then run parachron doctor again."
        )));
    }
    if case.kind() == Some(HypervisorKind::Kvm) && !case.offers("kvm-clock") {
        finding =
            finding.remedy(Remedy::advice("Enable kvm-clock: see the finding kvm-clock-missing."));
    }
    finding = finding.evidence_from(why_no_tsc(case));
    if finding.remedies.is_empty() {
        finding = finding.remedy(Remedy::advice(if case.is_guest() == Some(true) {
            "Ask the host's operator for an invariant TSC (QEMU: -cpu host,+invtsc) if no other \
             finding names the reason: the kernel offers nothing better."
        } else {
            "Find in the kernel log of the boot why tsc is not offered, and update the firmware: \
             the kernel offers nothing better."
        }));
    }
    finding
}

/// The parameter that keeps the kernel from using the TSC.
fn excluding_parameter(case: &Case<'_>) -> Option<&'static str> {
    let unstable = case.sets("tsc", "unstable").then_some("tsc=unstable");
    unstable.or_else(|| case.parameter("notsc").map(|_| "notsc"))
}

/// Why the kernel does not offer the TSC, where nothing else in the finding
/// shows it.
fn why_no_tsc(case: &Case<'_>) -> Option<String> {
    if case.available().is_err() || case.offers("tsc") {
        return None;
    }
    let unstable = |event: &LogEvent| matches!(event, LogEvent::MarkedUnstable { clocksource, .. } if is_tsc(clocksource));
    let log_line = case
        .logged(unstable)
        .next()
        .or_else(|| case.logged(|event| *event == LogEvent::TscFault).next());
    if let Some(line) = log_line {
        return Some(format!("no tsc: {}", log_evidence(line)));
    }
    let flags = case.flags().ok()?;
    Some(if !flags.tsc {
        "no tsc: this CPU has no TSC (CPUID leaf 1 EDX bit 4 is clear)".to_owned()
    } else if !flags.nonstop_tsc {
        "no tsc: the TSC is not invariant (CPUID leaf 0x80000007 EDX bit 8 is clear)".to_owned()
    } else {
        "no tsc: the CPU has an invariant TSC; the log does not show why the kernel does not use \
         it"
        .to_owned()
    })
}

/// What a read of `source` costs and why, when that is slow.
fn slowness(case: &Case<'_>, source: &str) -> Option<String> {
    let guest = case.is_guest() == Some(true);
    let device = |what: &str| {
        if guest {
            format!("{what}. In a virtual machine each read exits to the host: 1–5 µs.")
        } else {
            format!("{what}. Each read takes a system call, about 1 µs.")
        }
    };
    match source {
        "hpet" => Some(device("hpet is a chip outside the CPU")),
        "acpi_pm" => Some(device("acpi_pm is a counter behind an I/O port")),
        "pit" => Some(device("pit is a timer behind I/O ports")),
        "jiffies" | "refined-jiffies" => Some(
            "jiffies counts timer interrupts: the clock advances only every 1–10 ms, and loses \
             time if a busy host delivers interrupts late."
                .to_owned(),
        ),
        "hyperv_clocksource_msr" | "hyperv_clocksource" => {
            Some("Each read is a system call and an exit to Hyper-V.".to_owned())
        }
        // Under Xen the page is mapped into programs only where the host flags
        // the TSC as stable (arch/x86/xen/time.c), so a count decides.
        "timer" if case.kind() == Some(HypervisorKind::UserModeLinux) => Some(
            "User-mode Linux stops a program at each system call and makes another one on the host \
             for the time: 4–8 µs."
                .to_owned(),
        ),
        "xen" => match case.clock_cost() {
            Some(cost) if !cost.path.is_kernel() => None,
            // One cause, one finding: tsc-trapped.
            _ if case.xen_emulates_tsc() => None,
            None if !case.offers("tsc") || !against_tsc(case).is_empty() => None,
            _ => Some(
                "If programs cannot read Xen's clock page directly, each read is a system call: \
                 596 ns on one EC2 machine (m4), against 27 ns with tsc."
                    .to_owned(),
            ),
        },
        _ => None,
    }
}

/// The source to switch to, if one of those offered is better.
fn better_source<'a>(case: &Case<'_>, against_tsc: &[String]) -> Option<&'a str> {
    const PAGES: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];
    let page = PAGES
        .into_iter()
        .find(|page| case.offers(page))
        .filter(|_| against_advertised_rate(case).is_none());
    let tsc = (case.offers("tsc") && against_tsc.is_empty()).then_some("tsc");
    // Over a save and restore the page stays right, the TSC does not.
    if case.snapshots().is_some() { page.or(tsc) } else { tsc.or(page) }
}

/// `clocksource-not-used`
pub(crate) fn check_requested(case: &Case<'_>) -> Check {
    case.command_line()?;
    let Some(requested) = case.parameter("clocksource").filter(|name| !name.is_empty()) else {
        return Outcome::fine("the kernel command line requests no clock source");
    };
    let current = case.current()?;
    if current == requested {
        return Outcome::fine(format!("{requested}, as the kernel command line requests"));
    }
    let offered = case.offers(requested);
    let finding = Finding::new(
        Severity::Warning,
        format!("The command line requests clock source {requested}; the kernel uses {current}"),
    )
    .evidence(format!("kernel command line: clocksource={requested}"))
    .evidence(format!("current_clocksource: {current}"));
    let finding = match case.available() {
        Ok(available) => {
            finding.evidence(format!("available_clocksource: {}", available.join(" ")))
        }
        Err(_) => finding,
    };
    let is_disabled = requested == "hpet" && case.sets("hpet", "disable");
    let finding = finding.explain(if is_disabled {
        "hpet=disable on the same command line takes the HPET away, so the kernel chose another \
         source by rating. Where both are built into the kernel (CONFIG_CMDLINE), the boot loader \
         cannot take them out. The time is not wrong by that; reads cost more."
    } else if offered {
        "Someone or some program changed it after boot. Settings that were tuned or tested for one \
         source may not suit the other."
    } else {
        "The kernel does not have that source: the name is misspelt, the driver is not built in, \
         this machine lacks the device, or the kernel found it unstable. It silently chose another \
         source by rating."
    });
    let against = if requested == "tsc" { against_tsc(case) } else { Vec::new() };
    finding
        .remedy(if !against.is_empty() {
            Remedy::advice(format!(
                "Keep the present source; do not switch to tsc: {}.",
                text::list(&against)
            ))
        } else if offered {
            remedies::switch_to(case, requested)
        } else {
            remedies::remove_parameter(case, &format!("clocksource={requested}"))
        })
        .alone()
}

#[cfg(test)]
mod tests;
