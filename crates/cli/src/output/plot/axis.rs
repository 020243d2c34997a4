//! Values to pixels, and the ticks a person reads them by.

use super::canvas::{Canvas, GRID, MUTED, Side};

/// Most ticks on a linear axis.
const TICKS: f64 = 5.0;

/// An axis between two pixels, from left to right or from bottom to top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlotAxis {
    kind: Kind,
    from_px: i32,
    to_px: i32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// From one power of ten to another.
    Log { from_power: i32, to_power: i32 },
    /// From a value, a whole number of steps.
    Linear { from: f64, step: f64, steps: f64 },
}

impl PlotAxis {
    /// A logarithmic axis that spans `least` to `most`, at least a decade.
    pub(crate) fn log(least: f64, most: f64, from_px: i32, to_px: i32) -> Self {
        let from_power = least.log10().floor() as i32;
        let to_power = (most.log10().ceil() as i32).max(from_power + 1);
        Self { kind: Kind::Log { from_power, to_power }, from_px, to_px }
    }

    /// A linear axis from zero to at least `most`, in steps of 1, 2 or 5.
    pub(crate) fn linear(most: f64, from_px: i32, to_px: i32) -> Self {
        Self::between(0.0, most, from_px, to_px)
    }

    /// A linear axis from at most `least` to at least `most`, in steps of 1, 2
    /// or 5.
    pub(crate) fn between(least: f64, most: f64, from_px: i32, to_px: i32) -> Self {
        let rough = (most - least).max(f64::MIN_POSITIVE) / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|times| times * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let from = (least / step).floor() * step;
        let steps = ((most - from) / step).ceil();
        Self { kind: Kind::Linear { from, step, steps }, from_px, to_px }
    }

    /// The pixel of `value`; what lies beyond is at the edge.
    pub(crate) fn px(&self, value: f64) -> i32 {
        let share = match self.kind {
            Kind::Log { from_power, to_power } => {
                (value.log10() - f64::from(from_power)) / f64::from(to_power - from_power)
            }
            Kind::Linear { from, step, steps } => (value - from) / (step * steps),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from_px + (share * f64::from(self.to_px - self.from_px)).round() as i32
    }

    /// Values that get a label.
    fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Log { from_power, to_power } => {
                (from_power..=to_power).map(|power| 10f64.powi(power)).collect()
            }
            Kind::Linear { from, step, steps } => {
                (0..=steps as u32).map(|tick| from + f64::from(tick) * step).collect()
            }
        }
    }

    /// Grid lines from `top` to `bottom`, labels below them.
    pub(crate) fn draw(
        &self,
        canvas: &Canvas,
        (top, bottom): (i32, i32),
        label: impl Fn(f64) -> String,
    ) {
        for tick in self.ticks() {
            let x = self.px(tick);
            canvas.line(&[(x, top), (x, bottom)], GRID, 1);
            canvas.text(&label(tick), (x, bottom + 12), Side::Middle, 12, MUTED);
        }
    }

    /// Of an axis from bottom to top: grid lines from `left` to `right`,
    /// labels before them.
    pub(crate) fn draw_upright(
        &self,
        canvas: &Canvas,
        (left, right): (i32, i32),
        label: impl Fn(f64) -> String,
    ) {
        for tick in self.ticks() {
            let y = self.px(tick);
            canvas.line(&[(left, y), (right, y)], GRID, 1);
            canvas.text(&label(tick), (left - 8, y), Side::Right, 12, MUTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_equally_long() {
        let axis = PlotAxis::log(21.0, 4500.0, 100, 400);
        assert_eq!(
            [10.0, 100.0, 1000.0, 10_000.0].map(|value| axis.px(value)),
            [100, 200, 300, 400]
        );
        assert_eq!(axis.ticks().len(), 4);
    }

    #[test]
    fn what_lies_beyond_is_at_the_edge() {
        let axis = PlotAxis::log(10.0, 100.0, 0, 10);
        assert_eq!([0.0, -1.0, 1.0, 1e9, f64::NAN].map(|value| axis.px(value)), [0, 0, 0, 10, 0]);
    }

    #[test]
    fn linear_steps_are_round_and_cover_all() {
        let axis = PlotAxis::linear(236_058.0, 0, 300);
        assert_eq!(axis.ticks(), [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0, 250_000.0]);
        assert_eq!(axis.px(250_000.0), 300);
    }

    #[test]
    fn an_upright_axis_may_begin_below_zero() {
        let axis = PlotAxis::between(-230.0, 10.0, 300, 0);
        assert_eq!(axis.ticks(), [-250.0, -200.0, -150.0, -100.0, -50.0, 0.0, 50.0]);
        assert_eq!([-250.0, -100.0, 50.0].map(|value| axis.px(value)), [300, 150, 0]);
    }
}
