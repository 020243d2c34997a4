//! Restores: a bar for each clock, as long as the time the guest saw pass; a mark
//! where it should end.

use lab::results::Restore;

use super::panel::PlotPanel;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, Colour, INK, Side};
use crate::output::plot::{Legend, RIGHT, colour};

/// Where the rows' names end, and the bars.
const LABELS: i32 = 230;
const BARS_END: i32 = RIGHT - 150;
const ROW: i32 = 20;
const AXIS: i32 = 26;

/// All clocks.
pub(super) struct Restores<'r>(pub(super) &'r [Restore]);

/// The colour of a policy.
fn colour_of(policy: &str) -> Colour {
    colour(usize::from(policy != "advance"))
}

impl PlotPanel for Restores<'_> {
    fn heading(&self) -> &str {
        "Restore: how far the guest's clock advanced (the mark shows how far it should have)"
    }

    fn legend(&self) -> Legend {
        ["advance", "freeze"].map(|policy| (policy.to_owned(), colour_of(policy))).into()
    }

    fn height(&self) -> i32 {
        ROW * i32::try_from(self.0.len()).unwrap_or(0) + AXIS
    }

    fn draw(&self, canvas: &Canvas, top: i32) {
        let most = self.0.iter().map(|row| row.seen_s.max(row.expected_s)).fold(0.0, f64::max);
        let axis = PlotAxis::linear(most, LABELS, BARS_END);
        let bottom = top + self.height() - AXIS;
        axis.draw(canvas, (top, bottom), |s| format!("{s:.1} s"));
        for (row, index) in self.0.iter().zip(0..) {
            let (y, middle) = (top + index * ROW, top + index * ROW + ROW / 2);
            let name = format!("{}, {}: {}", row.backend.name(), row.policy, row.source);
            canvas.text(&name, (LABELS - 8, middle), Side::Right, 13, INK);
            let end = axis.px(row.seen_s).max(LABELS + 1);
            canvas.rect((LABELS, y + 3), (end, y + ROW - 3), colour_of(&row.policy), 1.0);
            let mark = axis.px(row.expected_s);
            canvas.line(&[(mark, y + 1), (mark, y + ROW - 1)], INK, 2);
            let figure = format!("{:.3} s of {:.3} s", row.seen_s, row.expected_s);
            canvas.text(&figure, (end.max(mark) + 8, middle), Side::Left, 12, INK);
        }
    }
}
