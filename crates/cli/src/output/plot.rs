//! What plots are made of: a surface in pixels, axes, and colours.

pub(crate) mod axis;
pub(crate) mod canvas;
#[cfg(test)]
pub(crate) mod testing;

use plotters::style::RGBColor;

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
