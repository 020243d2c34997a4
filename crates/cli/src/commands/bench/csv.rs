//! The report as CSV: one figure per line.

use instruments::measurements::{ReadPath, Spread};

use super::report::{BenchReport, SourceRun};
use super::tables::slices;
use crate::output::table::{Cell, Column, ReportTable};

/// The whole report.
pub(super) fn render(report: &BenchReport) -> String {
    let mut csv = FigureTable(ReportTable::new(
        "",
        ["clocksource", "measurement", "subject", "figure", "unit", "value"].map(Column::words),
    ));
    for run in &report.runs {
        csv.clocks(run);
        csv.loads(run);
    }
    csv.0.csv()
}

struct FigureTable(ReportTable);

impl FigureTable {
    fn add(&mut self, run: &SourceRun, what: [&str; 4], value: f64) {
        let cells = [run.source()].into_iter().chain(what).map(Cell::from);
        self.0.row(cells.chain([Cell::figure(value, 0)]));
    }

    fn spread(&mut self, run: &SourceRun, subject: &str, unit: &str, spread: Spread) {
        let figures = [
            ("min", spread.min),
            ("median", spread.median),
            ("p99", spread.p99),
            ("max", spread.max),
        ];
        for (figure, value) in figures {
            self.add(run, ["cost", subject, figure, unit], value);
        }
    }

    fn clocks(&mut self, run: &SourceRun) {
        let found = &run.measurements;
        for cost in &found.costs {
            self.spread(run, &cost.call, "ns", cost.ns);
            if let Some(cycles) = cost.cycles {
                self.spread(run, &cost.call, "cycles", cycles);
            }
            let mut add = |figure, value: u64| {
                self.add(run, ["cost", &cost.call, figure, "1"], value as f64);
            };
            add("samples", cost.samples);
            add("calls per sample", cost.calls_per_sample);
            add("outliers", cost.outliers);
            if let ReadPath::Counted { calls, entered } = cost.path {
                add("trial calls", calls);
                add("entered the kernel", entered);
            }
        }
        for step in &found.granularity {
            let seen =
                [("step observed", step.smallest_step_ns), ("step claimed", step.claimed_ns)];
            for (figure, ns) in seen {
                if let Some(ns) = ns {
                    self.add(run, ["granularity", &step.clock, figure, "ns"], ns as f64);
                }
            }
        }
        for order in &found.order {
            let clock = order.clock.as_str();
            self.add(run, ["order", clock, "readings", "1"], order.readings as f64);
            self.add(run, ["order", clock, "backward", "1"], order.backward as f64);
            self.add(run, ["order", clock, "largest backward", "ns"], order.largest_backward_ns);
        }
        for skew in &found.skews {
            let cpus = format!("CPU {} against CPU {}", skew.cpu_b, skew.cpu_a);
            self.add(run, ["skew", &cpus, "offset", "ns"], skew.offset_ns);
            self.add(run, ["skew", &cpus, "bound", "ns"], skew.bound_ns);
            self.add(run, ["skew", &cpus, "round trips", "1"], skew.round_trips as f64);
        }
        if let Some(rate) = found.tsc_rate {
            self.add(run, ["rate", "TSC", "frequency", "Hz"], rate.hz);
            self.add(run, ["rate", "TSC", "bound", "ppm"], rate.bound_ppm);
        }
    }

    fn loads(&mut self, run: &SourceRun) {
        for load in &run.throughput {
            let subject = format!("{} by {}", load.load, load.copies);
            let (slowest, fastest) = slices(load);
            let figures =
                [("whole run", load.per_s), ("slowest slice", slowest), ("fastest slice", fastest)];
            for (figure, value) in figures {
                self.add(run, ["throughput", &subject, figure, &load.unit], value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
