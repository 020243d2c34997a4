//! What plots are made of: a surface in pixels, axes, and colours.

pub(crate) mod axis;
pub(crate) mod canvas;
#[cfg(test)]
pub(crate) mod testing;

use plotters::style::RGBColor;

use axis::Axis;

/// Width of a picture.
pub(crate) const WIDTH: i32 = 1000;
/// Right edge of everything.
pub(crate) const RIGHT: i32 = 980;

/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];

/// The colour of what is at `index`.
pub(crate) fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The outline of a histogram, (lower edge; samples): a step for each bin, down to the base between
/// bins with a gap.
pub(crate) fn outline(
    histogram: &[(f64, u64)],
    (top, base): (i32, i32),
    axis: &Axis,
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
