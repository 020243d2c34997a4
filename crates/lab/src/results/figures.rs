//! All figures of an experiment in one shape, as for CSV.

use instruments::measurements::Spread;

use super::report::{Findings, Outcome};
use super::rows::{Agreement, Cost, Drift, Monotonic, Offset, Restore, Update};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Who made the clock: `kernel`, a provider of ours, `both`.
    pub maker: String,
    /// The clock, event or setting.
    pub subject: String,
    /// What it is: `drift`, `offset p99`.
    pub name: String,
    /// Its unit; 1 for a count.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

impl Outcome {
    /// All figures, row by row.
    pub fn figures(&self) -> Vec<Figure> {
        let mut all = Figures::default();
        match &self.findings {
            Findings::Drift(rows) => rows.iter().for_each(|row| all.drift(row)),
            Findings::Updates(rows) => rows.iter().for_each(|row| all.update(row)),
            Findings::Cost(rows) => rows.iter().for_each(|row| all.cost(row)),
            Findings::Monotonic(rows) => rows.iter().for_each(|row| all.monotonic(row)),
            Findings::Offset(rows) => rows.iter().for_each(|row| all.offset(row)),
            Findings::Restore(rows) => rows.iter().for_each(|row| all.restore(row)),
            Findings::Agreement(rows) => rows.iter().for_each(|row| all.agreement(row)),
            Findings::Conformance => {}
        }
        all.0
    }
}

#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, maker: &str, subject: &str, figures: &[(&str, &'static str, f64)]) {
        self.0.extend(figures.iter().map(|&(name, unit, value)| Figure {
            maker: maker.to_owned(),
            subject: subject.to_owned(),
            name: name.to_owned(),
            unit,
            value,
        }));
    }

    fn spread(&mut self, maker: &str, subject: &str, name: &str, unit: &'static str, of: Spread) {
        for (mark, value) in
            [("min", of.min), ("median", of.median), ("p99", of.p99), ("max", of.max)]
        {
            self.add(maker, subject, &[(&format!("{name} {mark}"), unit, value)]);
        }
    }

    fn drift(&mut self, row: &Drift) {
        self.add(
            row.backend.maker(&row.provider),
            &row.source,
            &[
                ("guest TSC", "Hz", row.guest_tsc_hz as f64),
                ("host", "s", row.host_s),
                ("guest", "s", row.guest_s),
                ("per 300 s", "s", row.per_300_s),
                ("drift", "ppm", row.drift_ppm),
                ("theory", "ppm", row.theory_ppm),
                ("uncertainty", "ppm", row.uncertainty_ppm),
            ],
        );
    }

    fn update(&mut self, row: &Update) {
        if row.not_caused.is_some() {
            return;
        }
        let subject = format!("{}, vCPU {}", row.event, row.vcpu);
        self.add(
            row.backend.name(),
            &subject,
            &[
                ("version before", "1", row.version.0.into()),
                ("version after", "1", row.version.1.into()),
                ("step", "ns", row.step_ns as f64),
                ("flags before", "1", row.flags.0.into()),
                ("flags after", "1", row.flags.1.into()),
            ],
        );
    }

    fn cost(&mut self, row: &Cost) {
        let maker = row.backend.maker(&row.provider);
        self.spread(maker, &row.source, "reading", "cycles", row.cycles);
        self.spread(maker, &row.source, "rdtsc", "cycles", row.rdtsc_cycles);
        self.add(
            maker,
            &row.source,
            &[
                ("least", "ns", row.least_ns),
                ("ratio", "1", row.ratio),
                ("reads", "1", row.reads as f64),
                ("rounds", "1", row.rounds as f64),
            ],
        );
    }

    fn monotonic(&mut self, row: &Monotonic) {
        let subject = format!("{}, {}", row.setting, row.source);
        self.add(
            row.backend.name(),
            &subject,
            &[
                ("vCPUs", "1", row.vcpus as f64),
                ("reads", "1", row.reads as f64),
                ("interleaved", "1", row.interleaved as f64),
                ("backward", "1", row.backward as f64),
                ("largest backward", "ns", row.worst_ns as f64),
            ],
        );
    }

    fn offset(&mut self, row: &Offset) {
        let maker = row.backend.maker(&row.provider);
        self.spread(maker, &row.source, "offset", "ns", row.offset_ns);
        self.add(
            maker,
            &row.source,
            &[("bound", "ns", row.bound_ns), ("samples", "1", row.samples as f64)],
        );
    }

    fn restore(&mut self, row: &Restore) {
        let subject = format!("{}, {}", row.policy, row.source);
        self.add(
            row.backend.name(),
            &subject,
            &[
                ("downtime", "s", row.downtime_s),
                ("seen", "s", row.seen_s),
                ("expected", "s", row.expected_s),
                ("GUEST_STOPPED", "1", row.guest_stopped.into()),
            ],
        );
    }

    fn agreement(&mut self, row: &Agreement) {
        self.spread("both", &row.page, "parachron minus kernel", "ns", row.difference_ns);
        self.add(
            "both",
            &row.page,
            &[("samples", "1", row.samples as f64), ("over", "s", row.seconds)],
        );
    }
}
