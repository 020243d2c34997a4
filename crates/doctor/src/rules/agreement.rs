//! Whether the facts are of one machine: a capture may be of two, or made up.

use facts::cpu::HypervisorKind;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, perhaps};

/// What contradicts what, where both are known.
const CONTRADICTIONS: [fn(&Case<'_>) -> Option<String>; 3] =
    [source_not_offered, hypervisor_denied, log_too_long];

/// `facts-agree`
pub(crate) fn check(case: &Case<'_>) -> Check {
    perhaps(case.current())?;
    let found: Vec<_> = CONTRADICTIONS.iter().filter_map(|shows| shows(case)).collect();
    if found.is_empty() {
        return Outcome::fine("no fact contradicts another");
    }
    Finding::new(
        Severity::Warning,
        "Facts contradict each other: they are of two machines or boots, or made up",
    )
    .evidence_from(found)
    .explain("A finding that rests on one of them may be of another machine: trust none of these.")
    .remedy(
        Remedy::command("Capture the machine again, by one run.", "sudo parachron capture DIR")
            .changes("nothing but that folder"),
    )
    .alone()
}

fn source_not_offered(case: &Case<'_>) -> Option<String> {
    let (current, all) = (case.current().ok()?, case.available().ok()?);
    let is_offered = all.is_empty() || all.iter().any(|source| source == current);
    (!is_offered).then(|| format!("current_clocksource {current} is not among {}", all.join(" ")))
}

/// kvm-clock and CPUID's signature are KVM's alone.
fn hypervisor_denied(case: &Case<'_>) -> Option<String> {
    let flags = case.flags().ok()?;
    let is_kvm = case.kind() == Some(HypervisorKind::Kvm) || case.offers("kvm-clock");
    let is_denied = is_kvm && flags.tsc && !flags.hypervisor;
    is_denied.then(|| "CPUID or kvm-clock shows KVM; /proc/cpuinfo lacks hypervisor".to_owned())
}

/// The log's clock stands still in a suspend, and the uptime does not.
fn log_too_long(case: &Case<'_>) -> Option<String> {
    const SLACK_S: f64 = 60.0;
    let &uptime_s = case.uptime_s().ok()?;
    let last_s = case.logged(|_| true).filter_map(|line| line.at_s).fold(0.0, f64::max);
    (last_s > uptime_s + SLACK_S)
        .then(|| format!("the kernel log reaches {last_s:.0} s; the uptime is {uptime_s:.0} s"))
}
