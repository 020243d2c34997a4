//! The run as a picture: errors of all over time, how long clocks were wrong, and
//! the story of the guest that was off most.

use instruments::figures::{seconds, time};
use simulator::outcome::least_ns;
use simulator::report::SimulateReport;
use simulator::{Fleet, Look, ScenarioCorrector, Simulation, band_ns};

use super::Fleets;
use super::run::DisciplineRun;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, Colour, INK, MUTED, Side, width};
use crate::output::plot::{RIGHT, colour, picture};

const LEFT: i32 = 90;
const PANEL: i32 = 190;
const GAP: i32 = 84;
const FIRST: i32 = 130;

/// Errors below this are drawn at it, s.
const LEAST_S: f64 = 1e-6;

/// The shares of the guests that each band has.
const SHARES: [(f64, f64, &str); 4] =
    [(1.0, 0.12, "all"), (0.99, 0.25, "99 %"), (0.9, 0.4, "90 %"), (0.5, 0.9, "half")];

/// The picture as the text of an SVG file.
pub(super) fn svg<'s>(
    report: &SimulateReport,
    done: &Fleets,
    span_ns: i64,
    simulation: impl Fn(ScenarioCorrector) -> Simulation<'s>,
) -> String {
    // The keeper's story, where there is one.
    let one = done.iter().rfind(|one| one.corrector == ScenarioCorrector::Keeper).or(done.last());
    let story = one.and_then(|one| {
        let worst = one.fleet.worst()?.guest;
        let mut looks = Vec::new();
        let simulation = simulation(one.corrector);
        let mut watch = |look: Look| looks.push(look);
        let plan = simulation.plan(worst);
        simulation.guest(worst, &plan, &mut Fleet::new(), Some(&mut watch));
        Some((one.corrector, worst, looks))
    });
    let panels = i32::try_from(done.len()).unwrap_or(0) + 2;
    picture(FIRST + panels * (PANEL + GAP) - 20, |canvas| {
        let title = format!("{}: clocks of {} guests", report.scenario, report.guests);
        canvas.bold(&title, (20, 30), 22, INK);
        let mut at = 20;
        for (_, opacity, words) in SHARES {
            canvas.rect((at, 56), (at + 14, 70), colour(0), opacity);
            let words = format!("{words} of the guests");
            canvas.text(&words, (at + 20, 63), Side::Left, 14, INK);
            at += 40 + width(&words, 14);
        }
        let mut top = FIRST;
        let most_s = most_s(done);
        for one in done {
            bands(canvas, one, span_ns, most_s, top);
            top += PANEL + GAP;
        }
        wrong(canvas, done, top);
        let Some(story) = &story else { return };
        draw_story(canvas, story, span_ns, top + PANEL + GAP)
    })
}

type Story = (ScenarioCorrector, u64, Vec<Look>);

fn heading(canvas: &Canvas, words: &str, top: i32) {
    canvas.text(words, (20, top - 18), Side::Left, 15, INK)
}

/// The largest error of all bands, s.
fn most_s(done: &Fleets) -> f64 {
    let sizes = done.iter().flat_map(|one| &one.fleet.bands);
    let most = sizes.filter_map(|band| band.quantile_ns(1.0)).max().unwrap_or(1);
    (most as f64 / 1e9).max(LEAST_S * 10.0)
}

/// Days up to ten, else hours; axis labels of time since the start.
fn across(canvas: &Canvas, span_ns: i64, top: i32) -> PlotAxis {
    let hours = span_ns as f64 / 3.6e12;
    let (most, unit) = if hours > 72.0 { (hours / 24.0, "d") } else { (hours, "h") };
    let axis = PlotAxis::up_to(most, LEFT, RIGHT - 30);
    axis.draw(canvas, (top, top + PANEL), |at| format!("{at} {unit}"));
    PlotAxis::up_to(hours, LEFT, RIGHT - 30)
}

fn upright(canvas: &Canvas, most_s: f64, top: i32) -> PlotAxis {
    let axis = PlotAxis::log(LEAST_S, most_s, top + PANEL, top);
    axis.draw_upright(canvas, (LEFT, RIGHT - 30), seconds);
    axis
}

/// How far off the guests are over time.
fn bands(canvas: &Canvas, one: &DisciplineRun, span_ns: i64, most_s: f64, top: i32) {
    heading(canvas, &format!("{}: error of the time of day", one.corrector.name()), top);
    let (across, upright) = (across(canvas, span_ns, top), upright(canvas, most_s, top));
    for (share, opacity, _) in SHARES {
        let mut points = vec![(LEFT, top + PANEL)];
        for (band, histogram) in one.fleet.bands.iter().enumerate() {
            let Some(size_ns) = histogram.quantile_ns(share) else { continue };
            let x = across.px(band_ns(band, span_ns) as f64 / 3.6e12);
            points.push((x, upright.px((size_ns as f64 / 1e9).max(LEAST_S))));
        }
        let last = points.last().map_or(LEFT, |point| point.0);
        points.push((last, top + PANEL));
        canvas.shape(&points, colour(0), opacity);
    }
}

/// For how long clocks were wrong: the share of faults, by time to be right.
fn wrong(canvas: &Canvas, done: &Fleets, top: i32) {
    let words = "share of the faults after which a clock was right within";
    heading(canvas, words, top);
    let across = PlotAxis::log(0.1, 1e6, LEFT, RIGHT - 30);
    across.draw(canvas, (top, top + PANEL), |s| time(s * 1e9));
    let upright = PlotAxis::up_to(100.0, top + PANEL, top);
    upright.draw_upright(canvas, (LEFT, RIGHT - 30), |share| format!("{share} %"));
    let mut x = 60 + width(words, 15);
    for (index, one) in done.iter().enumerate() {
        let fleet = &one.fleet;
        let all = fleet.recoveries.count() + fleet.never_right;
        let name = one.corrector.name();
        canvas.rect((x, top - 25), (x + 12, top - 13), colour(index), 1.0);
        canvas.text(name, (x + 18, top - 19), Side::Left, 13, INK);
        x += 40 + width(name, 13);
        let mut sum = 0_u64;
        let mut line = Vec::new();
        for (bin, count) in fleet.recoveries.0.iter().enumerate() {
            sum += u64::from(*count);
            let at_s = least_ns(bin + 1) as f64 / 1e9;
            if (0.1..=1e6).contains(&at_s) && all > 0 {
                let share = sum as f64 / all as f64 * 100.0;
                line.push((across.px(at_s), upright.px(share)));
            }
        }
        canvas.line(&line, colour(index), 2);
    }
}

/// The story of one guest: its error either way, and what happens to it.
fn draw_story(canvas: &Canvas, (corrector, guest, looks): &Story, span_ns: i64, top: i32) {
    let words = format!("{}: guest {guest}, which was off most", corrector.name());
    heading(canvas, &words, top);
    let most_s = looks.iter().map(|look| look.error_ns.abs()).max().unwrap_or(0) as f64 / 1e9;
    let (across, upright) =
        (across(canvas, span_ns, top), upright(canvas, most_s.max(LEAST_S * 10.0), top));
    let x = |look: &Look| across.px(look.at_ns as f64 / 3.6e12);
    // A line up to each event, as a guest that is away has no clock.
    for lived in looks.split_inclusive(|look| look.happens.is_some()) {
        let at = |look: &Look| {
            let size_s = look.error_ns.abs() as f64 / 1e9;
            (x(look), upright.px(size_s.max(LEAST_S)))
        };
        let mut line: Vec<(i32, i32)> = lived.iter().map(at).collect();
        line.dedup();
        canvas.line(&line, colour(1), 2);
    }
    let mut free = LEFT;
    for look in looks.iter().filter(|look| look.happens.is_some()) {
        let at = x(look);
        canvas.line(&[(at, top), (at, top + PANEL)], EVENT, 1);
        let name = look.happens.map_or("", |kind| kind.name());
        // Where there is room.
        if at >= free && at + width(name, 12) < RIGHT {
            canvas.text(name, (at + 3, top + 8), Side::Left, 12, MUTED);
            free = at + width(name, 12) + 10;
        }
    }
}

const EVENT: Colour = "#969696";
