//! What plots are made of: a surface in pixels, axes, and colours.

pub(crate) mod axis;
pub(crate) mod canvas;
#[cfg(test)]
pub(crate) mod tests;

use instruments::measurements::Spread;

use axis::PlotAxis;
use canvas::{Canvas, Colour, INK, Side};

/// Width of a picture.
pub(crate) const WIDTH: i32 = 1000;
/// Right edge of everything.
pub(crate) const RIGHT: i32 = 980;

/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
pub(crate) const COLOURS: [Colour; 8] =
    ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#5A5A5A", "#000000"];

/// The colour of what is at `index`.
pub(crate) fn colour(index: usize) -> Colour {
    COLOURS[index % COLOURS.len()]
}

/// A picture of this height as the text of an SVG file.
pub(crate) fn picture(height: i32, draw: impl FnOnce(&Canvas)) -> String {
    let canvas = Canvas::new(WIDTH, height);
    draw(&canvas);
    canvas.finish()
}

/// Colours and what they mean.
pub(crate) type Legend = Vec<(String, Colour)>;

/// A legend, in one line from `top` down.
pub(crate) fn legend(canvas: &Canvas, entries: &Legend, top: i32) {
    let mut x = 20;
    for (words, colour) in entries {
        canvas.rect((x, top), (x + 12, top + 12), colour, 1.0);
        canvas.text(words, (x + 18, top + 6), Side::Left, 13, INK);
        x += 40 + canvas::width(words, 13);
    }
}

/// A bar from `left` to the axis' place of a value, `high` from `top` down, with a whisker
/// from one value to another, and words behind them.
pub(crate) struct PlotBar<'w> {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) high: i32,
    pub(crate) value: f64,
    pub(crate) whisker: (f64, f64),
    pub(crate) words: &'w str,
    pub(crate) colour: Colour,
}

impl<'w> PlotBar<'w> {
    /// Of a spread: the median, and from the least to p99.
    pub(crate) fn for_spread(
        ns: &Spread,
        left: i32,
        (top, high): (i32, i32),
        words: &'w str,
        colour: Colour,
    ) -> Self {
        Self { left, top, high, value: ns.median, whisker: (ns.min, ns.p99), words, colour }
    }

    /// Draws it.
    pub(crate) fn draw(&self, canvas: &Canvas, axis: &PlotAxis) {
        let end = axis.px(self.value).max(self.left + 1);
        canvas.rect((self.left, self.top + 1), (end, self.top + self.high - 1), self.colour, 1.0);
        let (from, to) = (axis.px(self.whisker.0), axis.px(self.whisker.1));
        let middle = self.top + self.high / 2;
        canvas.whisker(from, to, middle);
        canvas.text(self.words, (to.max(end) + 6, middle), Side::Left, 12, INK)
    }
}

/// The outline of a histogram, (lower edge; samples): a step for each bin, down to the base between
/// bins with a gap.
pub(crate) fn outline(
    histogram: &[(f64, u64)],
    (top, base): (i32, i32),
    axis: &PlotAxis,
) -> Vec<(i32, i32)> {
    // One column a pixel: bins narrower than that add up.
    let mut columns: Vec<(i32, u64)> = Vec::new();
    for (edge, samples) in histogram {
        let x = axis.px(*edge);
        match columns.last_mut() {
            Some((last, count)) if *last == x => *count += samples,
            _ => columns.push((x, *samples)),
        }
    }
    let height = |samples: u64| ((samples + 1) as f64).ln();
    let most = columns.iter().map(|column| height(column.1)).fold(1.0, f64::max);
    let mut points = Vec::new();
    for (x, samples) in columns {
        let y = base - (height(samples) / most * f64::from(base - top)).round() as i32;
        points.extend([(x, base), (x, y), (x + 2, y), (x + 2, base)]);
    }
    points
}
