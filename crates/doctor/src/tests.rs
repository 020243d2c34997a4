//! The table as a whole: healthy machines, unreadable machines, the verdict.

pub(crate) mod testing;

use std::collections::BTreeSet;

use facts::Fact;
use facts::kernel::LogEvent;

use crate::diagnose;
use crate::finding::{CheckState, Severity};
use crate::rules::{CHECKS, RULES};
use crate::testing::{
    healthy_bare_metal, healthy_firecracker, healthy_kvm_guest, measured, measured_tsc, set_source,
    undisciplined, unreadable,
};

#[test]
fn healthy_machines_have_no_findings() {
    let machines = [
        ("guest", healthy_kvm_guest(), measured_tsc()),
        ("bare metal", healthy_bare_metal(), measured_tsc()),
        ("firecracker", healthy_firecracker(), measured("kvm-clock", 27.0, 0)),
    ];
    for (name, facts, measurements) in machines {
        for measured in [Some(&measurements), None] {
            let diagnosis = diagnose(&facts, measured);
            assert_eq!(diagnosis.findings, [], "{name}");
            assert_eq!(diagnosis.checked.len(), RULES.len(), "{name}");
        }
        let unchecked: Vec<_> = diagnose(&facts, Some(&measurements))
            .checked
            .into_iter()
            .filter(|entry| entry.state == CheckState::NotChecked && entry.rule != "kvm-host-clock")
            .collect();
        assert_eq!(unchecked, [], "{name}");
    }
}

#[test]
fn an_unreadable_machine_has_one_finding_and_every_rule_gives_a_reason() {
    let diagnosis = diagnose(&unreadable(), None);
    let rules: Vec<_> = diagnosis.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["clock-sources-readable"]);
    let in_order = diagnosis.checked.iter().filter(|entry| entry.state == CheckState::InOrder);
    assert_eq!(in_order.count(), 0);
    for entry in &diagnosis.checked {
        assert!(!entry.outcome.trim().is_empty(), "{} gives no reason", entry.rule);
    }
}

#[test]
fn every_rule_reports_a_healthy_guest() {
    let diagnosis = diagnose(&healthy_kvm_guest(), Some(&measured_tsc()));
    let lines: Vec<_> = diagnosis
        .checked
        .iter()
        .map(|entry| format!("{}: {}", entry.rule, entry.outcome))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn names_are_unique_and_every_rule_names_its_source() {
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    let rows = include_str!("rules.txt").matches("\n== ").count();
    assert_eq!((rows, CHECKS.len()), (RULES.len(), RULES.len()));
    for rule in RULES.iter() {
        assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
        assert!(rule.checks.ends_with('.'), "{}", rule.name);
        assert!(!rule.source.is_empty(), "{}", rule.name);
    }
}

#[test]
fn the_worst_comes_first_and_gives_the_verdict() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    testing::boot_with(&mut facts, "divider=10");
    set_source(&mut facts, "acpi_pm", "tsc kvm-clock acpi_pm");
    let diagnosis = diagnose(&facts, None);
    let severities: Vec<_> = diagnosis.findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Note]);
    insta::assert_snapshot!(diagnosis.verdict);
}

#[test]
fn verdicts_of_healthy_and_unreadable_machines() {
    let healthy = diagnose(&healthy_bare_metal(), Some(&measured_tsc()));
    let mut facts = healthy_bare_metal();
    facts.kernel.log = testing::missing("kernel log");
    let partly = diagnose(&facts, Some(&measured_tsc()));
    let unreadable = diagnose(&unreadable(), None);
    insta::assert_snapshot!([healthy, partly, unreadable].map(|one| one.verdict).join("\n"));
}

#[test]
fn a_log_of_nonsense_finds_nothing() {
    let mut facts = healthy_kvm_guest();
    for (at_s, text) in [(f64::NAN, "\u{fffd}\u{0}"), (f64::INFINITY, ""), (-1.0, "Marking")] {
        testing::log(&mut facts, at_s, text, LogEvent::Other);
    }
    facts.load.uptime_s = Fact::Known(f64::NAN);
    assert_eq!(diagnose(&facts, None).findings, []);
}
