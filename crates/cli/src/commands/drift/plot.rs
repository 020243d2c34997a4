//! The result as a picture: how far each clock went, and how steadily.

use inspect::comparison::{ClockPairSeries, PairReport};
use instruments::drift::filter::Bounded;
use instruments::figures::{signed, time};

use super::report::DriftReport;
use super::text::frequency;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{self, Canvas, INK, MUTED, Side};
use crate::output::plot::{RIGHT, colour, picture};

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
    let panels = panels(pairs);
    let second = first + height(&panels);
    picture(second + PANEL + GAP / 2, |canvas| {
        canvas.bold("Clocks against their references", (20, 30), 22, INK);
        for (index, pair) in report.pairs.iter().enumerate() {
            legend(canvas, index, pair);
        }
        draw(canvas, &panels, first);
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

// How far each clock went since the start: every comparison, which of them
// were dropped, and the line that was fitted to the rest.

/// Height of a panel: the only one, or each of several.
const ONE: i32 = 300;
const SEVERAL: i32 = 190;

/// Clocks whose ranges differ by no more than this share a panel: in one with
/// a clock that went farther, the others would be lines along zero.
const ALIKE: f64 = 6.0;

/// Most panels; the last has all that is left.
const MOST: usize = 3;

/// What is drawn of a pair, from zero on.
struct PairPlot {
    index: usize,
    clock: &'static str,
    kept: Vec<Bounded>,
    late: Vec<Bounded>,
    outliers: Vec<Bounded>,
    /// What the line was fitted to, and the line between two points.
    blocks: Vec<Bounded>,
    lines: Vec<[(f64, f64); 2]>,
    steps_s: Vec<f64>,
}

impl PairPlot {
    fn from_pair(index: usize, pair: &ClockPairSeries) -> Option<Self> {
        let (series, drift) = (&pair.series, pair.series.drift()?);
        let (mut kept, mut late, mut outliers) = (Vec::new(), Vec::new(), Vec::new());
        for (at, reading) in series.readings().iter().enumerate() {
            let kind = if series.outliers().binary_search(&at).is_ok() {
                &mut outliers
            } else if drift.is_late(reading) {
                &mut late
            } else {
                &mut kept
            };
            kind.push(*reading);
        }
        let slope = drift.frequency.map(|frequency| frequency.ppm * 1e3);
        let parts = series.fitted();
        let best = |part: &Vec<instruments::drift::filter::Block>| {
            part.iter().map(|block| block.best).collect::<Vec<Bounded>>()
        };
        let parts: Vec<Vec<Bounded>> = parts.iter().map(best).collect();
        let lines = parts.iter().filter_map(|part| line(part, slope?)).collect();
        let steps_s = drift.steps.iter().map(|step| step.at_s).collect();
        let clock = pair.clock.name();
        let blocks = parts.concat();
        let mut shown = Self { index, clock, kept, late, outliers, blocks, lines, steps_s };
        let start = shown.lines.first().map(|line| line[0].1);
        shown.begin_at(start.or(shown.kept.first().map(|one| one.middle().1)).unwrap_or(0.0));
        Some(shown)
    }

    fn begin_at(&mut self, start_ns: f64) {
        let readings = [&mut self.kept, &mut self.late, &mut self.outliers, &mut self.blocks];
        for one in readings.into_iter().flatten() {
            one.low_ns -= start_ns;
            one.high_ns -= start_ns;
        }
        self.lines.iter_mut().flatten().for_each(|point| point.1 -= start_ns);
    }

    /// The values to make room for: outliers are drawn at the edge.
    fn range(&self) -> (f64, f64) {
        let kept = self.kept.iter().map(|one| one.middle().1);
        let lines = self.lines.iter().flatten().map(|point| point.1);
        kept.chain(lines).fold((0.0, 0.0), |(low, high), v| (f64::min(low, v), f64::max(high, v)))
    }

    fn spread(&self) -> f64 {
        let (low, high) = self.range();
        (high - low).max(1.0)
    }

    fn end_s(&self) -> f64 {
        self.kept.last().map_or(0.0, |one| one.at_s)
    }
}

/// Through the middle of a stretch's blocks, at the frequency found.
fn line(part: &[Bounded], slope: f64) -> Option<[(f64, f64); 2]> {
    let mut at_zero: Vec<f64> =
        part.iter().map(Bounded::middle).map(|(at_s, ns)| ns - slope * at_s).collect();
    at_zero.sort_by(f64::total_cmp);
    let at_zero = *at_zero.get(at_zero.len() / 2)?;
    let at = |one: &Bounded| (one.at_s, at_zero + slope * one.at_s);
    Some([at(part.first()?), at(part.last()?)])
}

/// The clocks of each panel, those that went least first.
fn panels(pairs: &[ClockPairSeries]) -> Vec<Vec<PairPlot>> {
    let all = pairs.iter().enumerate().filter_map(|(index, pair)| PairPlot::from_pair(index, pair));
    let mut all: Vec<PairPlot> = all.collect();
    all.sort_by(|a, b| a.spread().total_cmp(&b.spread()));
    let mut panels: Vec<Vec<PairPlot>> = Vec::new();
    for shown in all {
        let least = panels.last().and_then(|panel| panel.first()).map_or(0.0, PairPlot::spread);
        match panels.last_mut() {
            Some(panel) if shown.spread() <= ALIKE * least => panel.push(shown),
            _ => panels.push(vec![shown]),
        }
    }
    while panels.len() > MOST {
        let last = panels.pop().unwrap_or_default();
        if let Some(panel) = panels.last_mut() {
            panel.extend(last);
        }
    }
    panels
}

fn panel_height(panels: &[Vec<PairPlot>]) -> i32 {
    if panels.len() < 2 { ONE } else { SEVERAL }
}

/// The height of all panels, with the space below each.
fn height(panels: &[Vec<PairPlot>]) -> i32 {
    i32::try_from(panels.len()).unwrap_or(0) * (panel_height(panels) + GAP)
}

/// Draws them from `top` on.
fn draw(canvas: &Canvas, panels: &[Vec<PairPlot>], top: i32) {
    let all = || panels.iter().flatten();
    let mut marks =
        "dots: comparisons, faint where delayed; bars: what the line is fitted to".to_owned();
    if all().any(|shown| !shown.outliers.is_empty()) {
        marks += "; ×: outliers";
    }
    if all().any(|shown| !shown.steps_s.is_empty()) {
        marks += "; grey line: a step";
    }
    heading(canvas, &marks, top - 22);
    let end_s = all().map(PairPlot::end_s).fold(1e-9, f64::max);
    let tall = panel_height(panels);
    for (number, panel) in panels.iter().enumerate() {
        let top = top + i32::try_from(number).unwrap_or(0) * (tall + GAP);
        draw_one(canvas, panel, end_s, (top, top + tall));
    }
}

fn draw_one(canvas: &Canvas, panel: &[PairPlot], end_s: f64, (top, bottom): (i32, i32)) {
    let range = panel.iter().map(PairPlot::range);
    let (low, high) = range.fold((0.0, 1.0), |a, b| (f64::min(a.0, b.0), f64::max(a.1, b.1)));
    let mut names: Vec<&str> = panel.iter().map(|shown| shown.clock).collect();
    names.dedup();
    heading(canvas, &format!("offset since the start: {}", names.join(", ")), top);
    let across = PlotAxis::linear(end_s, LEFT, RIGHT - 30);
    let upright = PlotAxis::between(low, high, bottom, top);
    upright.draw_upright(canvas, (LEFT, RIGHT - 30), |ns| or_zero(ns, |ns| signed(ns, time)));
    across.draw(canvas, (top, bottom), |s| or_zero(s * 1e9, time));
    let at = |(at_s, ns): (f64, f64)| (across.px(at_s), upright.px(ns));
    for x in panel.iter().flat_map(|shown| &shown.steps_s).map(|at_s| across.px(*at_s)) {
        canvas.line(&[(x, top), (x, bottom)], MUTED, 1);
    }
    for shown in panel {
        let colour = colour(shown.index);
        let dots = |readings: &[Bounded], opacity: f64| {
            let mut pixels: Vec<_> = readings.iter().map(|one| at(one.middle())).collect();
            pixels.sort_unstable();
            pixels.dedup();
            pixels.into_iter().for_each(|pixel| canvas.dot(pixel, 2, colour, opacity))
        };
        dots(&shown.late, 0.12);
        dots(&shown.kept, 0.35);
        for one in &shown.outliers {
            canvas.cross(at(one.middle()), colour);
        }
    }
    for shown in panel {
        for best in &shown.blocks {
            let (x, from) = at((best.at_s, best.low_ns));
            canvas.line(&[(x, from), (x, upright.px(best.high_ns))], INK, 2);
        }
        for [from, to] in &shown.lines {
            canvas.line(&[at(*from), at(*to)], colour(shown.index), 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use inspect::comparison::ClockName;
    use instruments::drift::{DriftReading, Nesting, Series, Span};

    use super::super::report::DriftReport;
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

    /// Delayed on the way.
    const LATE: [u64; 3] = [20, 50, 80];
    /// One wrong answer, which lasts for none.
    const WRONG: u64 = 33;

    /// A reading a second of a clock that is fast by so much, from 1 s on.
    fn pair(clock: ClockName, fast_ppm: u64) -> ClockPairSeries {
        let mut series = Series::new();
        for n in 0..100 {
            let at = 1_000_000_000 * (n + 1);
            let wrong = if n == WRONG { 40_000_000 } else { 0 };
            let way = if LATE.contains(&n) { 30_000 } else { 40 + n % 7 };
            let reference = Span { before: at - way, after: at + way };
            let clock = Span::instant(at + n * 1000 * fast_ppm + wrong);
            let nesting = Nesting::ReferenceOutside;
            series.push(DriftReading { clock, reference, nesting }).unwrap();
        }
        ClockPairSeries::new(clock, "ntp 192.0.2.1", series)
    }

    #[test]
    fn samples_kept_and_dropped_and_the_fitted_line_are_told_apart() {
        let pairs = [pair(ClockName::Monotonic, 50)];
        let shown = PairPlot::from_pair(0, &pairs[0]).expect("something to draw");
        let at = |readings: &[Bounded]| -> Vec<u64> {
            readings.iter().map(|one| one.at_s.round() as u64).collect()
        };
        assert_eq!((at(&shown.outliers), at(&shown.late)), (vec![WRONG], LATE.to_vec()));
        assert_eq!(shown.kept.len(), 96);
        let [[from, to]] = shown.lines[..] else { panic!("{} lines", shown.lines.len()) };
        let ppm = (to.1 - from.1) / (to.0 - from.0) / 1e3;
        assert!((ppm - 50.0).abs() < 0.01 && to.0 - from.0 > 80.0, "{ppm} ppm, {from:?} {to:?}");
        assert!(shown.blocks.len() >= 5 && shown.steps_s.is_empty());
        // An outlier does not widen the axis.
        assert!(shown.range().1 < 5_100_000.0, "{:?}", shown.range());
        let svg = super::svg(&DriftReport::of_pairs(&pairs), &pairs);
        let dots = |opacity| svg.matches(&format!("opacity=\"{opacity}\"")).count();
        assert_eq!((dots("0.35"), dots("0.12")), (96, LATE.len()), "{svg}");
    }

    #[test]
    fn clocks_that_coincide_share_a_panel_and_one_that_went_farther_has_its_own() {
        let clocks =
            [(ClockName::Monotonic, 50), (ClockName::Realtime, 50), (ClockName::Rtc, 5_000)];
        let pairs = clocks.map(|(clock, fast_ppm)| pair(clock, fast_ppm));
        let names: Vec<Vec<_>> = panels(&pairs)
            .iter()
            .map(|panel| panel.iter().map(|shown| shown.clock).collect())
            .collect();
        assert_eq!(names, [vec!["monotonic", "realtime"], vec!["rtc"]]);
    }
}
