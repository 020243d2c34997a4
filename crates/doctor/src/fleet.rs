//! The findings of many machines, by finding.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use crate::finding::{CheckState, Remedy, Severity};
use crate::report::{DoctorReport, SchemaId};
use crate::rules::RULES;

/// The reports of several machines, and their findings together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FleetReport {
    /// Which form this document has.
    pub schema: SchemaId,
    /// The findings, worst first, then those of the most machines.
    pub summary: Vec<SharedFinding>,
    /// Machines without a finding.
    pub without_findings: Vec<String>,
    /// Machines on which no rule could check anything.
    pub not_checked: Vec<String>,
    /// Each machine's report.
    pub machines: Vec<DoctorReport>,
}

/// One rule's findings of one wording and one first remedy, on several machines.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SharedFinding {
    /// The rule.
    pub rule: String,
    /// The worst severity among them.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What to do first there, where there is anything to do.
    pub first: Option<Remedy>,
    /// The machines, in the order they were named.
    pub machines: Vec<String>,
}

impl FleetReport {
    /// The reports together, in the order given.
    pub fn new(machines: Vec<DoctorReport>) -> Self {
        let mut summary: Vec<SharedFinding> =
            RULES.iter().flat_map(|rule| shared(rule.name, &machines)).collect();
        // Stable: within them causes stay before consequences.
        summary.sort_by_key(|shared| (Reverse(shared.severity), Reverse(shared.machines.len())));
        let silent = machines.iter().filter(|report| report.diagnosis.findings.is_empty());
        let (unchecked, fine): (Vec<_>, Vec<_>) = silent.partition(|report| is_unchecked(report));
        let names = |reports: Vec<&DoctorReport>| {
            reports.iter().map(|report| report.origin.name().to_owned()).collect()
        };
        let (without_findings, not_checked) = (names(fine), names(unchecked));
        let schema = SchemaId::new("parachron-doctor-fleet");
        Self { schema, summary, without_findings, not_checked, machines }
    }
}

/// A rule's findings, those of one wording and one first remedy together: what
/// is right for one machine may be wrong for another that has the same fault.
fn shared(rule: &str, machines: &[DoctorReport]) -> Vec<SharedFinding> {
    let mut groups: Vec<SharedFinding> = Vec::new();
    for report in machines {
        let name = report.origin.name();
        for finding in report.diagnosis.findings.iter().filter(|finding| finding.rule == rule) {
            let first = finding.remedies.first();
            let same = |shared: &SharedFinding| {
                shared.what == finding.what && shared.first.as_ref() == first
            };
            let at = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(SharedFinding {
                    rule: rule.to_owned(),
                    severity: finding.severity,
                    what: finding.what.clone(),
                    first: first.cloned(),
                    machines: Vec::new(),
                });
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.severity = group.severity.max(finding.severity);
            if group.machines.last().is_none_or(|last| last != name) {
                group.machines.push(name.to_owned());
            }
        }
    }
    groups
}

/// Whether no rule found anything, and none could check.
fn is_unchecked(report: &DoctorReport) -> bool {
    let diagnosis = &report.diagnosis;
    diagnosis.findings.is_empty()
        && diagnosis.checked.iter().all(|rule| rule.state != CheckState::InOrder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Origin;
    use crate::testing::{healthy_kvm_guest, set_source, undisciplined};

    #[test]
    fn the_worst_finding_of_the_most_machines_comes_first() {
        let report = |name: &str, slow: bool, free: bool| {
            let mut facts = healthy_kvm_guest();
            if slow {
                set_source(&mut facts, "acpi_pm", "tsc kvm-clock acpi_pm");
            }
            if free {
                undisciplined(&mut facts);
            }
            DoctorReport::new(facts, None)
                .with_origin(Origin { root: Some(name.into()), ..Origin::default() })
        };
        let fleet = FleetReport::new(vec![
            report("a", false, true),
            report("b", true, true),
            report("c", true, false),
            report("d", false, false),
        ]);
        let summary: Vec<_> = fleet
            .summary
            .iter()
            .map(|shared| (shared.severity, shared.rule.as_str(), shared.machines.join(" ")))
            .collect();
        assert_eq!(
            summary,
            [
                (Severity::Error, "slow-clocksource", "b c".to_owned()),
                (Severity::Warning, "clock-steered", "a b".to_owned())
            ]
        );
        assert_eq!(fleet.without_findings, ["d"]);
        assert!(fleet.summary[0].first.as_ref().is_some_and(|first| first.what.contains("tsc")));
    }

    /// Advice to switch to tsc is wrong on the machine whose TSC is unstable.
    #[test]
    fn each_first_remedy_names_only_its_machines() {
        let report = |name: &str, unstable: bool| {
            let mut facts = healthy_kvm_guest();
            set_source(&mut facts, "acpi_pm", "tsc kvm-clock acpi_pm");
            if unstable {
                set_source(&mut facts, "acpi_pm", "kvm-clock acpi_pm");
            }
            DoctorReport::new(facts, None)
                .with_origin(Origin { root: Some(name.into()), ..Origin::default() })
        };
        let fleet =
            FleetReport::new(vec![report("a", false), report("b", true), report("c", true)]);
        for (name, machine) in [("a", 0), ("b", 1), ("c", 2)] {
            let own = &fleet.machines[machine].diagnosis.findings;
            for shared in
                fleet.summary.iter().filter(|shared| shared.machines.contains(&name.into()))
            {
                let same = own
                    .iter()
                    .find(|shared| shared.rule == shared.rule && shared.what == shared.what);
                assert_eq!(same.and_then(|shared| shared.remedies.first()), shared.first.as_ref());
            }
        }
        let slow: Vec<_> =
            fleet.summary.iter().filter(|shared| shared.rule == "slow-clocksource").collect();
        assert_eq!(slow.iter().map(|shared| shared.machines.len()).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_machine_that_could_not_be_checked_is_not_fine() {
        let mut report = DoctorReport::new(healthy_kvm_guest(), None);
        for rule in &mut report.diagnosis.checked {
            rule.state = CheckState::NotChecked;
        }
        let fleet = FleetReport::new(vec![report]);
        assert_eq!((fleet.without_findings.len(), fleet.not_checked.len()), (0, 1));
    }
}
