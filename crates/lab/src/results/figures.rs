//! All figures of an experiment in one shape, as for CSV.

use instruments::measurements::Spread;

use super::contention::Contention;
use super::echo::Echo;
use super::report::{ExperimentOutcome, Findings};
use super::rows::{
    Agreement, CostRow, DriftRow, Monotonic, OffsetRow, Restore, Stock, TicksRow, Update,
};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct LabFigure {
    /// Who made the clock: `kernel`, a provider of ours, `both`.
    pub provider: String,
    /// The clock, event or setting.
    pub subject: String,
    /// What it is: `drift`, `offset p99`.
    pub name: String,
    /// Its unit; 1 for a count.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

impl ExperimentOutcome {
    /// All figures, row by row.
    pub fn figures(&self) -> Vec<LabFigure> {
        let mut all = LabFigures::default();
        match &self.findings {
            Findings::Drift(rows) => rows.iter().for_each(|row| all.drift(row)),
            Findings::Updates(rows) => rows.iter().for_each(|row| all.update(row)),
            Findings::Cost(rows) => rows.iter().for_each(|row| all.cost(row)),
            Findings::Monotonic(rows) => rows.iter().for_each(|row| all.monotonic(row)),
            Findings::Offset(rows) => rows.iter().for_each(|row| all.offset(row)),
            Findings::Restore(rows) => rows.iter().for_each(|row| all.restore(row)),
            Findings::Ticks(rows) => rows.iter().for_each(|row| all.ticks(row)),
            Findings::Locks(rows) => rows.iter().for_each(|row| all.locks(row)),
            Findings::Network(rows) => rows.iter().for_each(|row| all.network(row)),
            Findings::Agreement(rows) => rows.iter().for_each(|row| all.agreement(row)),
            Findings::Linux(rows) => rows.iter().for_each(|row| all.stock(row)),
            Findings::Conformance => {}
        }
        all.figures
    }
}

#[derive(Default)]
struct LabFigures {
    figures: Vec<LabFigure>,
    /// Of the current row.
    provider: String,
    subject: String,
}

impl LabFigures {
    fn begin(&mut self, provider: &str, subject: String) {
        (self.provider, self.subject) = (provider.to_owned(), subject);
    }

    fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        let (provider, subject) = (self.provider.clone(), self.subject.clone());
        self.figures.push(LabFigure { provider, subject, name: name.to_owned(), unit, value });
    }

    fn spread(&mut self, name: &str, unit: &'static str, of: Spread) {
        let marks = [("min", of.min), ("median", of.median), ("p99", of.p99), ("max", of.max)];
        for (mark, value) in marks {
            self.add(&format!("{name} {mark}"), unit, value);
        }
    }

    fn drift(&mut self, row: &DriftRow) {
        self.begin(row.backend.label(&row.provider), row.source.clone());
        self.add("guest TSC", "Hz", row.guest_tsc_hz as f64);
        self.add("host", "s", row.host_s);
        self.add("guest", "s", row.guest_s);
        self.add("per 300 s", "s", row.per_300_s);
        self.add("drift", "ppm", row.drift_ppm);
        self.add("theory", "ppm", row.theory_ppm);
        self.add("uncertainty", "ppm", row.uncertainty_ppm);
    }

    fn update(&mut self, row: &Update) {
        if row.not_caused.is_some() {
            return;
        }
        self.begin(row.backend.name(), format!("{}, vCPU {}", row.event, row.vcpu));
        self.add("version before", "1", row.version.0.into());
        self.add("version after", "1", row.version.1.into());
        self.add("step", "ns", row.step_ns as f64);
        self.add("flags before", "1", row.flags.0.into());
        self.add("flags after", "1", row.flags.1.into());
    }

    fn cost(&mut self, row: &CostRow) {
        self.begin(row.backend.label(&row.provider), row.source.clone());
        self.spread("reading", "cycles", row.cycles);
        self.spread("rdtsc", "cycles", row.rdtsc_cycles);
        self.add("least", "ns", row.least_ns);
        self.add("ratio", "1", row.ratio);
        self.add("reads", "1", row.reads as f64);
        self.add("rounds", "1", row.rounds as f64);
    }

    fn monotonic(&mut self, row: &Monotonic) {
        self.begin(row.backend.name(), format!("{}, {}", row.setting, row.source));
        self.add("vCPUs", "1", row.vcpus as f64);
        self.add("reads", "1", row.reads as f64);
        self.add("interleaved", "1", row.interleaved as f64);
        self.add("backward", "1", row.backward as f64);
        self.add("largest backward", "ns", row.worst_ns as f64);
    }

    fn offset(&mut self, row: &OffsetRow) {
        self.begin(row.backend.label(&row.provider), row.source.clone());
        self.spread("offset", "ns", row.offset_ns);
        self.add("bound", "ns", row.bound_ns);
        self.add("samples", "1", row.samples as f64);
    }

    fn restore(&mut self, row: &Restore) {
        self.begin(row.backend.name(), format!("{}, {}", row.policy, row.source));
        self.add("downtime", "s", row.downtime_s);
        self.add("seen", "s", row.seen_s);
        self.add("expected", "s", row.expected_s);
        self.add("bound", "s", row.bound_s);
        self.add("GUEST_STOPPED", "1", row.guest_stopped.into());
    }

    fn ticks(&mut self, row: &TicksRow) {
        self.begin("parachron", format!("{}, held for {:.2} s", row.policy, row.held_s));
        self.add("period", "s", row.period_s);
        self.add("held", "s", row.held_s);
        self.add("counted", "s", row.counted_s);
        self.add("owed", "1", row.owed as f64);
        self.add("given", "1", row.given as f64);
        self.add("longest without", "s", row.longest_s);
        self.add("behind", "s", row.behind_s);
    }

    fn locks(&mut self, row: &Contention) {
        let hold = row.hold_ns as f64 / 1e3;
        let place = format!("{} vCPUs on {} CPUs, held {hold} µs", row.vcpus, row.cpus);
        self.begin("", format!("{}, {place}", row.lock));
        self.add("takes", "1/s", row.takes_per_s);
        self.add("hand-overs", "1/s", row.handovers_per_s);
        if let Some(spread) = row.handover_ns {
            self.spread("hand-over", "ns", spread);
        }
        self.add("halts a take", "1", row.halts_per_take);
        self.add("kicks a take", "1", row.kicks_per_take);
        self.add("spins a take", "1", row.spins_per_take);
        self.add("fairness", "1", row.fairness);
        self.add("CPUs had", "1", row.cpus_had);
        self.add("exit", "ns", row.exit_ns);
    }

    fn network(&mut self, row: &Echo) {
        self.begin("", row.mode.clone());
        self.add("notifications a packet", "1", row.notifications);
        self.add("interrupts a packet", "1", row.interrupts);
        self.add("waits a packet", "1", row.waits);
        for (name, value) in [
            ("exits a packet", row.exits),
            ("host's interrupts a packet", row.host_interrupts),
            ("emulated a packet", row.emulated),
            ("p90 over plain", row.p90_over_plain),
        ] {
            if let Some(value) = value {
                self.add(name, "1", value);
            }
        }
        self.add("copies a packet", "1", row.copies);
        self.add("bytes copied a packet", "B", row.bytes);
        self.spread("round trip", "ns", row.round_trip_ns);
        self.add("round trip p90", "ns", row.p90_ns);
        self.add("exit", "ns", row.exit_ns);
        self.add("packets", "1", row.packets as f64);
    }

    fn stock(&mut self, row: &Stock) {
        let subject = format!("{}, {} vCPUs", row.kernel, row.vcpus);
        self.begin(row.backend.label(&row.provider), subject);
        self.add("boot", "s", row.took_s);
        if let (Some(offset), Some(rate)) = (row.offset_ns, row.rate_ppm) {
            self.add("offset", "ns", offset);
            self.add("bound", "ns", row.bound_ns);
            self.add("rate", "ppm", rate);
        }
    }

    fn agreement(&mut self, row: &Agreement) {
        self.begin("both", row.page.clone());
        self.spread("parachron minus kernel", "ns", row.difference_ns);
        self.add("samples", "1", row.samples as f64);
        self.add("over", "s", row.seconds);
    }
}
