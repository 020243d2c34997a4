//! The result as a picture: how far each clock went, and how steadily.

mod offsets;

use inspect::comparison::{ClockPairSeries, PairReport};

use super::report::DriftReport;
use super::text::frequency;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{self, Canvas, INK, MUTED, Side};
use crate::output::plot::{RIGHT, colour, picture};
use instruments::figures::{signed, time};

/// Where axes begin; labels stand before them.
const LEFT: i32 = 110;
/// Height of each panel, and of the space between and below them.
const PANEL: i32 = 300;
const GAP: i32 = 76;
/// Rows of the legend begin here.
const LEGEND: i32 = 64;
const ROW: i32 = 22;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &DriftReport, pairs: &[ClockPairSeries]) -> String {
    let rows = i32::try_from(report.pairs.len()).unwrap_or(0);
    let first = LEGEND + rows * ROW + 62;
    let panels = offsets::panels(pairs);
    let second = first + offsets::height(&panels);
    picture(second + PANEL + GAP / 2, |canvas| {
        canvas.bold("Clocks against their references", (20, 30), 22, INK);
        for (index, pair) in report.pairs.iter().enumerate() {
            legend(canvas, index, pair);
        }
        offsets::draw(canvas, &panels, first);
        deviations(canvas, report, second)
    })
}

fn legend(canvas: &Canvas, index: usize, pair: &PairReport) {
    let top = LEGEND + i32::try_from(index).unwrap_or(0) * ROW;
    canvas.rect((20, top), (34, top + 14), colour(index), 1.0);
    let a_day = pair.drift.frequency.map_or(String::new(), |frequency| {
        format!(", {} a day", signed(frequency.per_day_s * 1e9, time))
    });
    let figure = frequency(&pair.drift);
    let steps = match &pair.drift.steps[..] {
        [] => String::new(),
        [step] => format!(", step {} at {}", signed(step.ns, time), time(step.at_s * 1e9)),
        steps => format!(", {} steps", steps.len()),
    };
    let words = format!("{} against {}: {figure}{a_day}{steps}", pair.clock, pair.reference);
    canvas.text(&words, (42, top + 7), Side::Left, 14, INK)
}

/// Allan deviations.
fn deviations(canvas: &Canvas, report: &DriftReport, top: i32) {
    let points = || {
        let all = report.pairs.iter().flat_map(|pair| &pair.drift.allan);
        all.filter(|point| point.deviation > 0.0)
    };
    heading(canvas, "overlapping Allan deviation, ppm, by tau", top);
    if points().next().is_none() {
        let words = "not measured: too few comparisons without a step between them";
        return canvas.text(words, (LEFT, top + 20), Side::Left, 14, MUTED);
    }
    let span = |value: fn(&instruments::drift::allan::AllanPoint) -> f64| {
        let (low, high) = (f64::INFINITY, 0.0f64);
        points().map(value).fold((low, high), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (tau, deviation) = (span(|point| point.tau_s), span(|point| point.deviation * 1e6));
    let across = PlotAxis::log(tau.0, tau.1, LEFT, RIGHT - 30);
    let upright = PlotAxis::log(deviation.0, deviation.1, top + PANEL, top);
    upright.draw_upright(canvas, (LEFT, RIGHT - 30), |ppm| format!("{ppm}"));
    across.draw(canvas, (top, top + PANEL), |s| time(s * 1e9));
    for (index, pair) in report.pairs.iter().enumerate() {
        let line: Vec<(i32, i32)> = pair
            .drift
            .allan
            .iter()
            .filter(|point| point.deviation > 0.0)
            .map(|point| (across.px(point.tau_s), upright.px(point.deviation * 1e6)))
            .collect();
        canvas.line(&line, colour(index), 2);
        for (x, y) in line {
            canvas.rect((x - 3, y - 3), (x + 3, y + 3), colour(index), 1.0);
        }
    }
}

/// Nothing has no unit.
fn or_zero(ns: f64, words: fn(f64) -> String) -> String {
    if ns == 0.0 { "0".into() } else { words(ns) }
}

fn heading(canvas: &Canvas, words: &str, top: i32) {
    debug_assert!(canvas::width(words, 14) < RIGHT - LEFT, "a heading that fits");
    canvas.text(words, (LEFT, top - 16), Side::Left, 14, MUTED)
}

#[cfg(test)]
mod tests {
    use inspect::comparison::ClockName;
    use instruments::drift::{DriftReading, Nesting, Series, Span};

    use super::*;
    use crate::output::plot::tests::check;

    /// A clock 50 ppm fast that steps once, and one that is not read often.
    fn pairs() -> Vec<ClockPairSeries> {
        let run = |clock: ClockName, readings: u64| {
            let mut series = Series::new();
            for n in 0..readings {
                let at = 1_000_000_000 * (n + 1);
                let step = if n >= 40 { 20_000_000 } else { 0 };
                let clock = Span::instant(at + n * 50_000 + step);
                let reference = Span { before: at - 60, after: at + 40 + n % 7 };
                let nesting = Nesting::ReferenceOutside;
                series.push(DriftReading { clock, reference, nesting }).unwrap();
            }
            ClockPairSeries::new(clock, "ntp 192.0.2.1", series)
        };
        vec![run(ClockName::Monotonic, 100), run(ClockName::Rtc, 2)]
    }

    #[test]
    fn words_do_not_lie_on_each_other() {
        let pairs = pairs();
        let svg = svg(&DriftReport::of_pairs(&pairs), &pairs);
        check(&svg);
        assert!(svg.contains("monotonic against ntp 192.0.2.1: +50."), "{svg}");
        assert!(svg.contains("step +20.0 ms at 40.0 s") && svg.contains("grey line: a step"));
    }

    #[test]
    fn too_little_is_said_instead_of_drawn() {
        let pairs = &pairs()[1..];
        let svg = svg(&DriftReport::of_pairs(pairs), pairs);
        assert!(svg.contains("too few comparisons"), "{svg}");
    }
}
