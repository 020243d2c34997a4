//! Loads: a group per kind of work, a bar per source and number of copies, with
//! a whisker from the slowest slice to the fastest.

use instruments::measurements::Throughput;

use super::LABELS;
use crate::commands::bench::report::SourceRun;
use crate::commands::bench::tables::slices;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, INK, MUTED, Side};
use crate::output::plot::{PlotBar, RIGHT, colour};
use instruments::figures::{count, three_digits};

const BAR: i32 = 16;
const GAP: i32 = 10;
const HEADING: i32 = 34;
const AXIS: i32 = 34;
/// Room for the figures right of the bars.
const BARS_END: i32 = RIGHT - 130;

/// One row: so many copies, under each source.
type Row<'r> = (u32, Vec<(usize, &'r Throughput)>);

/// The rows of one kind of work.
struct Group<'r> {
    load: &'r str,
    unit: &'r str,
    rows: Vec<Row<'r>>,
}

fn groups(runs: &[SourceRun]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for load in &run.throughput {
            let at = groups.iter().position(|group| group.load == load.load).unwrap_or_else(|| {
                groups.push(Group { load: &load.load, unit: &load.unit, rows: Vec::new() });
                groups.len() - 1
            });
            let rows = &mut groups[at].rows;
            match rows.iter_mut().find(|row| row.0 == load.copies) {
                Some(row) => row.1.push((index, load)),
                None => rows.push((load.copies, vec![(index, load)])),
            }
        }
    }
    groups
}

impl Group<'_> {
    fn rows_height(&self) -> i32 {
        let bars: usize = self.rows.iter().map(|row| row.1.len()).sum();
        let count = |n: usize| i32::try_from(n).unwrap_or(0);
        count(bars) * BAR + count(self.rows.len()) * GAP
    }

    fn height(&self) -> i32 {
        HEADING + self.rows_height() + AXIS
    }

    fn draw(&self, canvas: &Canvas, top: i32) {
        let all = self.rows.iter().flat_map(|row| &row.1);
        let most = all.map(|(_, load)| slices(load).1.max(load.per_s)).fold(0.0, f64::max);
        let axis = PlotAxis::linear(most, LABELS, BARS_END);
        canvas.bold(self.load, (20, top + 10), 15, INK);
        let heading = format!("{}; whisker: slowest to fastest slice", self.unit);
        canvas.text(&heading, (RIGHT, top + 10), Side::Right, 13, MUTED);
        let mut y = top + HEADING;
        axis.draw(canvas, (y, y + self.rows_height()), figure);
        for (copies, bars) in &self.rows {
            let height = BAR * i32::try_from(bars.len()).unwrap_or(0);
            let words = if *copies == 1 { "one copy".into() } else { format!("{copies} copies") };
            let middle = y + (GAP + height) / 2;
            canvas.text(&words, (LABELS - 8, middle), Side::Right, 13, INK);
            y += GAP / 2;
            for (index, load) in bars {
                let (value, words, colour) = (load.per_s, &*figure(load.per_s), colour(*index));
                let (top, high, whisker) = (y, BAR, slices(load));
                PlotBar { left: LABELS, top, high, value, whisker, words, colour }
                    .draw(canvas, &axis);
                y += BAR;
            }
            y += GAP - GAP / 2;
        }
    }
}

fn figure(per_s: f64) -> String {
    // Whole numbers, the axis' zero among them, as they are.
    if per_s < 1000.0 && per_s.fract() != 0.0 {
        three_digits(per_s)
    } else {
        count(per_s.round() as u64)
    }
}

/// Height of all groups.
pub(super) fn height(runs: &[SourceRun]) -> i32 {
    groups(runs).iter().map(Group::height).sum()
}

/// Draws all groups from `top` down.
pub(super) fn draw(canvas: &Canvas, runs: &[SourceRun], mut top: i32) {
    for group in groups(runs) {
        group.draw(canvas, top);
        top += group.height();
    }
}
