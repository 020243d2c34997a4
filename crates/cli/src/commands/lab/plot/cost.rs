//! Costs: a row for each clock, a bar for each provider's, on a logarithmic axis, as
//! a reading with an exit costs thousands of one without.

use lab::results::CostRow;

use super::panel::{PlotPanel, distinct};
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, Colour, INK, Side};
use crate::output::plot::{Legend, PlotBar, RIGHT, colour};
use instruments::figures::{time, whole_time};

/// Where the clocks' names end, and the bars.
const LABELS: i32 = 150;
const BARS_END: i32 = RIGHT - 90;
/// Height of a bar; of the space between rows; of the axis.
const BAR: i32 = 13;
const GAP: i32 = 12;
const AXIS: i32 = 26;

/// All clocks.
pub(super) struct CostBars<'r> {
    rows: &'r [CostRow],
    sources: Vec<&'r str>,
    providers: Vec<&'r str>,
}

fn name(row: &CostRow) -> &str {
    row.backend.label(&row.provider)
}

impl<'r> CostBars<'r> {
    pub(super) fn new(rows: &'r [CostRow]) -> Self {
        let sources = distinct(rows.iter().map(|row| row.source.as_str()));
        Self { rows, sources, providers: distinct(rows.iter().map(name)) }
    }

    fn of_source(&self, source: &str) -> impl Iterator<Item = &'r CostRow> {
        self.rows.iter().filter(move |row| row.source == source)
    }

    fn row_height(&self, source: &str) -> i32 {
        BAR * i32::try_from(self.of_source(source).count()).unwrap_or(0) + GAP
    }

    fn colour(&self, provider: &str) -> Colour {
        colour(self.providers.iter().position(|one| *one == provider).unwrap_or(0))
    }
}

impl PlotPanel for CostBars<'_> {
    fn heading(&self) -> &str {
        "Cost of a reading in the guest: median; whisker: least to p99"
    }

    fn legend(&self) -> Legend {
        self.providers
            .iter()
            .map(|provider| ((*provider).to_owned(), self.colour(provider)))
            .collect()
    }

    fn height(&self) -> i32 {
        self.sources.iter().map(|source| self.row_height(source)).sum::<i32>() + AXIS
    }

    fn draw(&self, canvas: &Canvas, top: i32) {
        let marks: Vec<_> = self.rows.iter().map(CostRow::ns).collect();
        let least = marks.iter().map(|ns| ns.min).filter(|ns| *ns > 0.0).fold(1e9, f64::min);
        let most = marks.iter().map(|ns| ns.p99).fold(least, f64::max);
        let axis = PlotAxis::log(least, most, LABELS, BARS_END);
        let bottom = top + self.height() - AXIS;
        axis.draw(canvas, (top, bottom), |ns| whole_time(ns.round() as u64));
        let mut y = top + GAP / 2;
        for source in &self.sources {
            let middle = y + (self.row_height(source) - GAP) / 2;
            canvas.text(source, (LABELS - 8, middle), Side::Right, 13, INK);
            let mut bar = y;
            for row in self.of_source(source) {
                let (ns, colour) = (row.ns(), self.colour(name(row)));
                PlotBar::for_spread(&ns, LABELS, (bar, BAR), &time(ns.median), colour)
                    .draw(canvas, &axis);
                bar += BAR;
            }
            y += self.row_height(source);
        }
    }
}
