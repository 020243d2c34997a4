//! A drawing surface in pixels: the few shapes the plots are made of, as SVG.

use std::cell::RefCell;
use std::fmt::{Arguments, Write as _};

/// A colour as SVG names it.
pub(crate) type Colour = &'static str;

/// Text.
pub(crate) const INK: Colour = "#202124";
/// Text of less weight.
pub(crate) const MUTED: Colour = "#6E7278";
/// Lines to read a value by.
pub(crate) const GRID: Colour = "#E2E4E8";

/// Which side of a text its position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Middle,
    Right,
}

/// The picture.
pub(crate) struct Canvas(RefCell<String>);

impl Canvas {
    /// An empty picture.
    pub(crate) fn new(width: i32, height: i32) -> Self {
        let canvas = Self(RefCell::default());
        canvas.add(format_args!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">"
        ));
        canvas.rect((0, 0), (width, height), "#FFFFFF", 1.0);
        canvas
    }

    fn add(&self, element: Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0.borrow_mut(), "{element}");
    }

    /// `words` with their middle at the height of `at`.
    pub(crate) fn text(&self, words: &str, at: (i32, i32), side: Side, size: i32, colour: Colour) {
        self.words(words, at, side, size, colour, "normal");
    }

    /// A heading that begins at `at`.
    pub(crate) fn bold(&self, words: &str, at: (i32, i32), size: i32, colour: Colour) {
        self.words(words, at, Side::Left, size, colour, "bold");
    }

    fn words(
        &self,
        words: &str,
        (x, y): (i32, i32),
        side: Side,
        size: i32,
        colour: Colour,
        weight: &str,
    ) {
        let anchor = match side {
            Side::Left => "start",
            Side::Middle => "middle",
            Side::Right => "end",
        };
        let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" \
             font-family=\"sans-serif\" font-size=\"{size}\" font-weight=\"{weight}\" \
             fill=\"{colour}\">{words}</text>"
        ));
    }

    /// A filled rectangle.
    pub(crate) fn rect(&self, from: (i32, i32), to: (i32, i32), colour: Colour, opacity: f64) {
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = (from.0.abs_diff(to.0), from.1.abs_diff(to.1));
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             opacity=\"{opacity}\" fill=\"{colour}\"/>"
        ));
    }

    /// A line through `points`.
    pub(crate) fn line(&self, points: &[(i32, i32)], colour: Colour, width: u32) {
        let points = joined(points);
        self.add(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             points=\"{points}\"/>"
        ));
    }

    /// A dot.
    pub(crate) fn dot(&self, (x, y): (i32, i32), radius: i32, colour: Colour, opacity: f64) {
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" opacity=\"{opacity}\" fill=\"{colour}\"/>"
        ));
    }

    /// A cross.
    pub(crate) fn cross(&self, (x, y): (i32, i32), colour: Colour) {
        self.line(&[(x - 3, y - 3), (x + 3, y + 3)], colour, 1);
        self.line(&[(x - 3, y + 3), (x + 3, y - 3)], colour, 1);
    }

    /// A line with a mark at each end.
    pub(crate) fn whisker(&self, from: i32, to: i32, y: i32) {
        self.line(&[(from, y), (to, y)], INK, 1);
        [from, to].into_iter().for_each(|x| self.line(&[(x, y - 3), (x, y + 3)], INK, 1));
    }

    /// A filled shape through `points`.
    pub(crate) fn shape(&self, points: &[(i32, i32)], colour: Colour, opacity: f64) {
        let points = joined(points);
        self.add(format_args!(
            "<polygon opacity=\"{opacity}\" fill=\"{colour}\" points=\"{points}\"/>"
        ));
    }

    /// The text of the SVG file.
    pub(crate) fn finish(self) -> String {
        self.0.into_inner() + "</svg>\n"
    }
}

fn joined(points: &[(i32, i32)]) -> String {
    points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// About how wide `words` come out: sans-serif letters are a good half as
/// wide as high, capitals wider.
pub(crate) fn width(words: &str, size: i32) -> i32 {
    let share: f64 = words.chars().map(|c| if c.is_uppercase() { 0.70 } else { 0.54 }).sum();
    (share * f64::from(size)).ceil() as i32
}
