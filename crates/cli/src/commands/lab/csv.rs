//! The report as CSV: one figure a line, so that every line has one shape.

use instruments::measurements::Spread;
use lab::results::{
    Agreement, Check, Cost, Drift, Findings, Monotonic, Offset, Outcome, Restore, Update,
};

use super::checks;
use super::report::LabReport;
use super::summary::name;
use super::tables::{maker, side};
use crate::output::table::{Cell, Column, Table};

/// The whole report.
pub(super) fn render(report: &LabReport) -> String {
    let columns = ["experiment", "clock by", "subject", "figure", "unit", "value"];
    let mut csv = Figures(Table::new("", columns.map(Column::words)));
    for outcome in &report.lab.experiments {
        csv.findings(outcome);
        for check in &outcome.checks {
            csv.check(outcome, check);
        }
    }
    csv.0.csv()
}

struct Figures(Table);

/// Which experiment, whose clock, and what of it.
type Subject<'a> = [&'a str; 3];

impl Figures {
    fn add(&mut self, subject: Subject<'_>, figure: &str, unit: &str, value: f64) {
        let words = subject.into_iter().chain([figure, unit]).map(Cell::from);
        self.0.row(words.chain([Cell::figure(value, 0)]));
    }

    fn spread(&mut self, subject: Subject<'_>, what: &str, unit: &str, spread: Spread) {
        let marks = [
            ("min", spread.min),
            ("median", spread.median),
            ("p99", spread.p99),
            ("max", spread.max),
        ];
        for (mark, value) in marks {
            self.add(subject, &format!("{what} {mark}"), unit, value);
        }
    }

    fn check(&mut self, outcome: &Outcome, check: &Check) {
        let verdict = checks::word(&check.verdict).to_lowercase();
        let words = [name(&outcome.findings), "", &check.name, "check", "", &verdict];
        self.0.row(words.map(Cell::from));
    }

    fn findings(&mut self, outcome: &Outcome) {
        match &outcome.findings {
            Findings::Drift(rows) => rows.iter().for_each(|row| self.drift(row)),
            Findings::Updates(rows) => rows.iter().for_each(|row| self.update(row)),
            Findings::Cost(rows) => rows.iter().for_each(|row| self.cost(row)),
            Findings::Monotonic(rows) => rows.iter().for_each(|row| self.monotonic(row)),
            Findings::Offset(rows) => rows.iter().for_each(|row| self.offset(row)),
            Findings::Restore(rows) => rows.iter().for_each(|row| self.restore(row)),
            Findings::Agreement(rows) => rows.iter().for_each(|row| self.agreement(row)),
            Findings::Conformance => {}
        }
    }

    fn drift(&mut self, row: &Drift) {
        let clock = maker(row.backend, &row.provider);
        let subject = ["drift", clock, &row.source];
        self.add(subject, "guest TSC", "Hz", row.guest_tsc_hz as f64);
        self.add(subject, "host", "s", row.host_s);
        self.add(subject, "guest", "s", row.guest_s);
        self.add(subject, "per 300 s", "s", row.per_300_s);
        self.add(subject, "drift", "ppm", row.drift_ppm);
        self.add(subject, "theory", "ppm", row.theory_ppm);
        self.add(subject, "uncertainty", "ppm", row.uncertainty_ppm);
    }

    fn update(&mut self, row: &Update) {
        if row.not_caused.is_some() {
            return;
        }
        let what = format!("{}, vCPU {}", row.event, row.vcpu);
        let subject = ["updates", side(row.backend), &what];
        self.add(subject, "version before", "1", row.version.0.into());
        self.add(subject, "version after", "1", row.version.1.into());
        self.add(subject, "step", "ns", row.step_ns as f64);
        self.add(subject, "flags before", "1", row.flags.0.into());
        self.add(subject, "flags after", "1", row.flags.1.into());
    }

    fn cost(&mut self, row: &Cost) {
        let clock = maker(row.backend, &row.provider);
        let subject = ["cost", clock, &row.source];
        self.spread(subject, "reading", "cycles", row.cycles);
        self.spread(subject, "rdtsc", "cycles", row.rdtsc_cycles);
        self.add(subject, "least", "ns", row.least_ns);
        self.add(subject, "ratio", "1", row.ratio);
        self.add(subject, "reads", "1", row.reads as f64);
        self.add(subject, "rounds", "1", row.rounds as f64);
    }

    fn monotonic(&mut self, row: &Monotonic) {
        let what = format!("{}, {}", row.setting, row.source);
        let subject = ["monotonic", side(row.backend), &what];
        self.add(subject, "vCPUs", "1", row.vcpus as f64);
        self.add(subject, "reads", "1", row.reads as f64);
        self.add(subject, "meetings", "1", row.meetings as f64);
        self.add(subject, "backward", "1", row.backward as f64);
        self.add(subject, "largest backward", "ns", row.worst_ns as f64);
    }

    fn offset(&mut self, row: &Offset) {
        let clock = maker(row.backend, &row.provider);
        let subject = ["offset", clock, &row.source];
        self.spread(subject, "offset", "ns", row.offset_ns);
        self.add(subject, "bound", "ns", row.bound_ns);
        self.add(subject, "samples", "1", row.samples as f64);
    }

    fn restore(&mut self, row: &Restore) {
        let what = format!("{}, {}", row.policy, row.source);
        let subject = ["restore", side(row.backend), &what];
        self.add(subject, "away", "s", row.away_s);
        self.add(subject, "seen", "s", row.seen_s);
        self.add(subject, "expected", "s", row.expected_s);
        self.add(subject, "GUEST_STOPPED", "1", row.guest_stopped.into());
    }

    fn agreement(&mut self, row: &Agreement) {
        let subject = ["agreement", "both", &row.page];
        self.spread(subject, "ours less KVM's", "ns", row.apart_ns);
        self.add(subject, "samples", "1", row.samples as f64);
        self.add(subject, "over", "s", row.seconds);
    }
}
