//! Histograms in characters: one line per call, one axis for all.

use instruments::measurements::{CallCost, Measurements};

use super::report::short_name;
use crate::output::table::{Column, ReportTable};
use instruments::figures::whole_time;

/// Characters a histogram is wide.
const WIDTH: usize = 52;

/// Heights, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A logarithmic axis of times.
struct HistogramAxis {
    from_ns: f64,
    octaves: f64,
}

impl HistogramAxis {
    /// One that spans all samples of `costs`.
    fn over(costs: &[CallCost]) -> Option<Self> {
        let edges = || costs.iter().flat_map(|cost| &cost.histogram).map(|bin| bin.0);
        let from_ns = edges().filter(|edge| *edge > 0.0).min_by(f64::total_cmp)?;
        let to_ns = edges().max_by(f64::total_cmp)?;
        Some(Self { from_ns, octaves: (to_ns / from_ns).log2().max(1.0) })
    }

    /// The column that shows `ns`.
    fn column(&self, ns: f64) -> usize {
        let share = (ns / self.from_ns).log2().max(0.0) / self.octaves;
        ((share * WIDTH as f64) as usize).min(WIDTH - 1)
    }

    /// `10 ns`, `100 ns` and so on, each at its column.
    fn labels(&self) -> String {
        let mut line = String::new();
        let first = self.from_ns.log10().ceil() as i32;
        let last = (self.from_ns * self.octaves.exp2()).log10().floor() as i32;
        for power in first..=last {
            let ns = 10f64.powi(power);
            let label = format!("╷{}", whole_time(ns.round().max(1.0) as u64));
            let (used, column) = (line.chars().count(), self.column(ns));
            if ns >= 1.0 && column >= used && column + label.chars().count() <= WIDTH {
                line.extend(std::iter::repeat_n(' ', column - used));
                line.push_str(&label);
            }
        }
        line
    }

    /// `cost`'s samples as bars, by the logarithm of their number, so that few
    /// outliers still show.
    fn bars(&self, cost: &CallCost) -> String {
        let mut columns = [0u64; WIDTH];
        for (edge, samples) in &cost.histogram {
            columns[self.column(*edge)] += samples;
        }
        let height = |samples: u64| ((samples + 1) as f64).ln();
        let most = height(columns.iter().copied().max().unwrap_or(0));
        let bar = |samples: u64| match samples {
            0 => ' ',
            _ => BARS[((height(samples) / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        };
        columns.into_iter().map(bar).collect::<String>().trim_end().to_owned()
    }
}

/// The histograms of `run`'s costs.
pub(super) fn table(run: &Measurements) -> Option<ReportTable> {
    let costs = &run.costs;
    let axis = HistogramAxis::over(costs)?;
    let columns = [Column::names("call"), Column::names(axis.labels())];
    let mut table = ReportTable::new("Samples by cost (both axes logarithmic)", columns);
    for cost in costs {
        table.row([short_name(&cost.call).into(), axis.bars(cost).into()]);
    }
    Some(table)
}
