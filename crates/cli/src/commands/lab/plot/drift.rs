//! Drift: a panel for each provider, with a line for each clock: guest minus host
//! over time.

use lab::results::DriftRow;

use super::panel::{PlotPanel, distinct};
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, Colour, INK, MUTED, Side};
use crate::output::plot::{Legend, RIGHT, colour};
use instruments::figures::{three_digits, time};

/// Left and right edge of the lines; their drift is written to the right.
const LEFT: i32 = 90;
const LINES_END: i32 = 740;
/// Of a panel's lines.
const HEIGHT: i32 = 140;
/// Above a panel, for its name; below it, for the axis.
const NAME: i32 = 24;
const AXIS: i32 = 34;
/// Of a line of text.
const WORDS: i32 = 15;
/// The smallest range, ms: less is noise of the readings.
const LEAST_MS: f64 = 0.02;

/// All clocks, by provider.
pub(super) struct Drifts<'r> {
    providers: Vec<(&'r str, Vec<&'r DriftRow>)>,
    sources: Vec<&'r str>,
    longest_s: f64,
}

impl<'r> Drifts<'r> {
    pub(super) fn new(rows: &'r [DriftRow]) -> Self {
        let name = |row: &'r DriftRow| row.backend.label(&row.provider);
        let providers = distinct(rows.iter().map(name)).into_iter().map(|one| {
            let rows = rows.iter().filter(|row| name(row) == one);
            (one, rows.collect())
        });
        let tracks = rows.iter().flat_map(|row| &row.track);
        Self {
            providers: providers.collect(),
            sources: distinct(rows.iter().map(|row| row.source.as_str())),
            longest_s: tracks.map(|point| point.0).fold(0.0, f64::max),
        }
    }

    fn colour(&self, source: &str) -> Colour {
        colour(self.sources.iter().position(|one| *one == source).unwrap_or(0))
    }

    fn draw_panel(&self, canvas: &Canvas, (name, rows): &(&str, Vec<&DriftRow>), top: i32) {
        let tsc_mhz = rows.first().map_or(0, |row| row.guest_tsc_hz) as f64 / 1e6;
        let heading = format!("{name}: the guest assumes a TSC of {tsc_mhz:.2} MHz");
        canvas.text(&heading, (LEFT, top + 8), Side::Left, 13, INK);
        let top = top + NAME;
        let values = || rows.iter().flat_map(|row| &row.track).map(|point| point.1);
        let least = values().fold(-LEAST_MS, f64::min);
        let most = values().fold(LEAST_MS, f64::max);
        let across = PlotAxis::up_to(self.longest_s, LEFT, LINES_END);
        let up = PlotAxis::between(least, most, top + HEIGHT, top);
        across.draw(canvas, (top, top + HEIGHT), |s| format!("{s} s"));
        up.draw_upright(canvas, (LEFT, LINES_END), |ms| {
            if ms.abs() < 1e-9 { "0".into() } else { time(ms * 1e6) }
        });
        for row in rows {
            let points: Vec<_> =
                row.track.iter().map(|(s, ms)| (across.px(*s), up.px(*ms))).collect();
            canvas.line(&points, self.colour(&row.source), 2);
        }
        self.draw_ends(canvas, rows, &up, top)
    }

    /// Each line's drift, next to its end as far as there is room.
    fn draw_ends(&self, canvas: &Canvas, rows: &[&DriftRow], up: &PlotAxis, top: i32) {
        let end = |row: &DriftRow| up.px(row.track.last().map_or(0.0, |point| point.1));
        let mut ends: Vec<_> = rows.iter().map(|row| (end(row), *row)).collect();
        ends.sort_by_key(|(y, _)| *y);
        let room = WORDS * i32::try_from(ends.len()).unwrap_or(0);
        let mut lowest = top - WORDS / 2;
        for (index, (y, row)) in ends.into_iter().enumerate() {
            let left = room - WORDS * i32::try_from(index).unwrap_or(0);
            let last = top + HEIGHT + WORDS / 2 - left + WORDS;
            let y = y.min(last).max(lowest);
            lowest = y + WORDS;
            let colour = self.colour(&row.source);
            canvas.rect((LINES_END + 14, y - 4), (LINES_END + 22, y + 4), colour, 1.0);
            canvas.text(&row.source, (LINES_END + 28, y), Side::Left, 12, INK);
            let drift = format!("{} ppm", three_digits(row.drift_ppm));
            canvas.text(&drift, (RIGHT, y), Side::Right, 12, MUTED);
        }
    }

    /// The height of a panel's lines, or of the text next to them if that is more.
    fn panel_height(&self, rows: &[&DriftRow]) -> i32 {
        let words = WORDS * i32::try_from(rows.len()).unwrap_or(0);
        NAME + HEIGHT.max(words) + AXIS
    }
}

impl PlotPanel for Drifts<'_> {
    fn heading(&self) -> &str {
        "Drift: guest time minus host time"
    }

    fn legend(&self) -> Legend {
        self.sources.iter().map(|source| ((*source).to_owned(), self.colour(source))).collect()
    }

    fn height(&self) -> i32 {
        self.providers.iter().map(|(_, rows)| self.panel_height(rows)).sum()
    }

    fn draw(&self, canvas: &Canvas, top: i32) {
        let mut top = top;
        for panel in &self.providers {
            self.draw_panel(canvas, panel, top);
            top += self.panel_height(&panel.1);
        }
    }
}
