//! A drawing surface in pixels: the few shapes the plots are made of.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, IntoFont, IntoTextStyle, RGBColor, ShapeStyle, TextStyle, WHITE,
};

/// Why a picture could not be drawn; to a string it always can.
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Text.
pub(crate) const INK: RGBColor = RGBColor(32, 33, 36);
/// Text of less weight.
pub(crate) const MUTED: RGBColor = RGBColor(110, 114, 120);
/// Lines to read a value by.
pub(crate) const GRID: RGBColor = RGBColor(226, 228, 232);

/// plotters divides font sizes by this (plotters-svg, `draw_text`).
const FONT_SCALE: f64 = 1.24;

/// Which side of a text its position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Middle,
    Right,
}

/// The picture.
pub(crate) struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl<'a> Canvas<'a> {
    /// An empty picture that ends up in `svg`.
    pub(crate) fn new(svg: &'a mut String, width: i32, height: i32) -> Result<Self, DrawError> {
        let size = (width.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        Ok(Self(area))
    }

    /// `words` with their middle at the height of `at`.
    pub(crate) fn text(
        &self,
        words: &str,
        at: (i32, i32),
        side: Side,
        size: i32,
        colour: RGBColor,
    ) -> Result<(), DrawError> {
        self.words(words, at, style(side, size, colour, FontStyle::Normal))
    }

    /// A heading that begins at `at`.
    pub(crate) fn bold(
        &self,
        words: &str,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
    ) -> Result<(), DrawError> {
        self.words(words, at, style(Side::Left, size, colour, FontStyle::Bold))
    }

    fn words(&self, words: &str, at: (i32, i32), style: TextStyle) -> Result<(), DrawError> {
        self.0.draw(&Text::new(words, at, style))
    }

    /// A filled rectangle.
    pub(crate) fn rect(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), DrawError> {
        self.0.draw(&Rectangle::new([from, to], colour.mix(opacity).filled()))
    }

    /// A line through `points`.
    pub(crate) fn line(
        &self,
        points: &[(i32, i32)],
        colour: RGBColor,
        width: u32,
    ) -> Result<(), DrawError> {
        let stroke = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: width };
        self.0.draw(&PathElement::new(points.to_vec(), stroke))
    }

    /// A dot.
    pub(crate) fn dot(
        &self,
        at: (i32, i32),
        radius: i32,
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), DrawError> {
        self.0.draw(&Circle::new(at, radius, colour.mix(opacity).filled()))
    }

    /// A cross.
    pub(crate) fn cross(&self, (x, y): (i32, i32), colour: RGBColor) -> Result<(), DrawError> {
        self.line(&[(x - 3, y - 3), (x + 3, y + 3)], colour, 1)?;
        self.line(&[(x - 3, y + 3), (x + 3, y - 3)], colour, 1)
    }

    /// A line with a mark at each end.
    pub(crate) fn whisker(&self, from: i32, to: i32, y: i32) -> Result<(), DrawError> {
        self.line(&[(from, y), (to, y)], INK, 1)?;
        [from, to].into_iter().try_for_each(|x| self.line(&[(x, y - 3), (x, y + 3)], INK, 1))
    }

    /// A filled shape through `points`.
    pub(crate) fn shape(
        &self,
        points: Vec<(i32, i32)>,
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), DrawError> {
        self.0.draw(&Polygon::new(points, colour.mix(opacity)))
    }

    /// Writes the end of the picture.
    pub(crate) fn finish(&self) -> Result<(), DrawError> {
        self.0.present()
    }
}

fn style(side: Side, size: i32, colour: RGBColor, weight: FontStyle) -> TextStyle<'static> {
    let horizontal = match side {
        Side::Left => HPos::Left,
        Side::Middle => HPos::Center,
        Side::Right => HPos::Right,
    };
    ("sans-serif", f64::from(size) * FONT_SCALE)
        .into_font()
        .style(weight)
        .with_color(colour)
        .into_text_style(&(0, 0))
        .pos(Pos::new(horizontal, VPos::Center))
}

/// About how wide `words` come out: sans-serif letters are a good half as
/// wide as high, capitals wider.
pub(crate) fn width(words: &str, size: i32) -> i32 {
    let share: f64 = words.chars().map(|c| if c.is_uppercase() { 0.70 } else { 0.54 }).sum();
    (share * f64::from(size)).ceil() as i32
}
