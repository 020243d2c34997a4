//! Which clock source is in use, and whether a better one is to be had.

use facts::cpu::HypervisorKind;
use facts::kernel::LogEvent;

use crate::case::trust::{against_announced_rate, against_tsc};
use crate::case::{Case, cost_line, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome};
use crate::text;

/// `clock-sources-readable`
pub(crate) fn readable(case: &Case<'_>) -> Check {
    let (current, available) =
        (&case.facts.clocksources.current, &case.facts.clocksources.available);
    let (Some(why), Some(_)) = (current.unknown(), available.unknown()) else {
        return Outcome::fine("the kernel says which clock sources it has");
    };
    Finding::new(
        Severity::Warning,
        "The kernel's clock sources cannot be read, so most could not be checked",
    )
    .evidence(why.to_string())
    .why(
        "Which clock this machine reads decides what a reading costs and what can make it wrong. \
         /sys tells it; here /sys is missing or closed.",
    )
    .remedy(
        Remedy::command("Mount sysfs, then ask again.", "sudo mount -t sysfs sysfs /sys")
            .changes("until the next boot; in a container, its manager decides what it sees"),
    )
    .alone()
}

/// `slow-clocksource`
pub(crate) fn slow(case: &Case<'_>) -> Check {
    let current = case.current()?;
    let Some(cost) = slowness(case, current) else {
        return Outcome::fine(format!("{current}, which programs can read by themselves"));
    };
    let against = against_tsc(case);
    let better = better_source(case, &against);
    let slow = format!("Every clock reading is slow: {current}");
    let mut finding = match better {
        // Not measured, so not an error yet.
        Some(better) if current == "xen" && case.clock_cost().is_none() => Finding::new(
            Severity::Warning,
            format!("The clock is read through xen, in most clouds a system call, not {better}"),
        ),
        Some(better) => Finding::new(Severity::Error, format!("{slow} instead of {better}")),
        None => Finding::new(Severity::Error, format!("{slow} is in use")),
    }
    .evidence(format!("current_clocksource: {current}"));
    if let Some(available) = case.facts.clocksources.available.known() {
        finding = finding.evidence(format!("available_clocksource: {}", available.join(" ")));
    }
    if let Some(measured) = case.clock_cost() {
        finding = finding.evidence(cost_line(measured));
    }
    let switched = case.logged(|event| matches!(event, LogEvent::Switched { to } if to == current));
    if let Some(line) = switched.last() {
        finding = finding.evidence(log_evidence(line));
    }
    let pinned = ["clocksource", "clock"].iter().find_map(|name| {
        let value = case.parameter(name).filter(|value| !value.is_empty())?;
        Some(format!("{name}={value}")).filter(|_| value == current || *name == "clock")
    });
    if let Some(pinned) = &pinned {
        finding = finding.evidence(format!("kernel command line: {pinned}"));
    }
    finding = finding.why(format!(
        "{cost} Programs ask for the time thousands of times a second: databases, tracing, \
         network servers. tsc and the hypervisors' clock pages are read in 20–60 ns inside the \
         program."
    ));
    with_remedies(case, finding, better, against, pinned).alone()
}

fn with_remedies(
    case: &Case<'_>,
    mut finding: Finding,
    better: Option<&str>,
    against: Vec<String>,
    pinned: Option<String>,
) -> Finding {
    if let Some(better) = better {
        finding = finding.remedy(remedies::switch_to(case, better));
        finding = finding.remedy(match &pinned {
            Some(pinned) => remedies::remove_parameter(case, pinned),
            None => remedies::add_parameter(case, &format!("clocksource={better}")),
        });
    }
    if better != Some("tsc") && !against.is_empty() {
        let sources = match against_announced_rate(case) {
            Some(_) => "tsc or kvm-clock",
            None => "tsc",
        };
        let reasons = text::list(&against);
        finding =
            finding.remedy(Remedy::advice(format!("Do not switch to {sources} here: {reasons}.")));
    }
    if case.kind() == Some(HypervisorKind::Kvm) && !case.offers("kvm-clock") {
        finding = finding.remedy(Remedy::advice(
            "Have kvm-clock, which is made for this: see the finding kvm-clock-missing.",
        ));
    }
    if finding.remedies.is_empty() {
        finding = finding.remedy(Remedy::advice(
            "The kernel offers nothing better here. The other findings may say why; else ask \
             whoever runs the host for an invariant TSC.",
        ));
    }
    finding
}

/// What a reading of `source` costs and why, when that is slow.
fn slowness(case: &Case<'_>, source: &str) -> Option<String> {
    let guest = case.is_guest() == Some(true);
    let device = |what: &str| match guest {
        true => format!(
            "{what}. In a virtual machine each read of it stops the vCPU until the host has \
             answered: 1–5 µs."
        ),
        false => format!("{what}. Each read of it takes a system call, and about 1 µs."),
    };
    match source {
        "hpet" => Some(device("hpet is a chip outside the CPU")),
        "acpi_pm" => Some(device("acpi_pm is a counter behind an I/O port")),
        "pit" => Some(device("pit is a timer behind I/O ports")),
        "jiffies" | "refined-jiffies" => Some(
            "jiffies counts timer interrupts: the clock stands still for 1–10 ms between two, \
             and loses time when a busy host delivers them late."
                .to_owned(),
        ),
        "hyperv_clocksource_msr" | "hyperv_clocksource" => Some(
            "Each reading is a request to Hyper-V: a system call, and a way to the host and back."
                .to_owned(),
        ),
        // Under Xen the page is mapped into programs only where the host
        // vouches for the TSC (arch/x86/xen/time.c), so a count decides.
        "xen" => match case.clock_cost() {
            Some(cost) if !cost.path.is_kernel() => None,
            None if !case.offers("tsc") || !against_tsc(case).is_empty() => None,
            _ => Some(
                "Where programs cannot read Xen's clock page themselves each reading is a system \
                 call: on EC2 it took 596 ns, with tsc 23 ns."
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
        .filter(|_| against_announced_rate(case).is_none());
    let tsc = (case.offers("tsc") && against_tsc.is_empty()).then_some("tsc");
    // Where guests are saved and restored the page carries on, the TSC not.
    match case.snapshots() {
        Some(_) => page.or(tsc),
        None => tsc.or(page),
    }
}

/// `clocksource-asked-for`
pub(crate) fn asked_for(case: &Case<'_>) -> Check {
    case.command_line()?;
    let Some(asked) = case.parameter("clocksource").filter(|asked| !asked.is_empty()) else {
        return Outcome::fine("the kernel command line leaves the choice to the kernel");
    };
    let current = case.current()?;
    if current == asked {
        return Outcome::fine(format!("{asked}, as the kernel command line asks"));
    }
    let offered = case.offers(asked);
    let finding = Finding::new(
        Severity::Warning,
        format!("The kernel was told to use {asked} and uses {current}"),
    )
    .evidence(format!("kernel command line: clocksource={asked}"))
    .evidence(format!("current_clocksource: {current}"));
    let finding = match case.available() {
        Ok(available) => {
            finding.evidence(format!("available_clocksource: {}", available.join(" ")))
        }
        Err(_) => finding,
    };
    let finding = finding.why(match offered {
        true => {
            "Someone or something changed it after boot. What was tuned or tested for the \
                 one does not hold for the other."
        }
        false => {
            "The kernel does not have that source here: misspelt, not built in, not on this \
                  machine, or found unstable. It then chooses by its own ratings and says no more."
        }
    });
    let against = if asked == "tsc" { against_tsc(case) } else { Vec::new() };
    match offered {
        _ if !against.is_empty() => finding.remedy(Remedy::advice(format!(
            "Leave it so: what speaks against tsc is that {}.",
            text::list(&against)
        ))),
        true => finding.remedy(remedies::switch_to(case, asked)),
        false => finding.remedy(remedies::remove_parameter(case, &format!("clocksource={asked}"))),
    }
    .alone()
}

#[cfg(test)]
mod tests;
