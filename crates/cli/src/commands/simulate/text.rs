//! The report for people.

use instruments::figures::{count, seconds};
use simulator::Scenario;
use simulator::report::{DisciplineReport, Of, SimulateReport};
use simulator::seed::Seed;

use super::Fleets;
use crate::output::Format;
use crate::output::table::{Cell, Column, ReportTable, width, wrap};

/// The scenarios that come with the program.
pub(super) fn list(scenarios: &[Scenario]) -> String {
    let mut table = ReportTable::new("", [Column::names("scenario"), Column::words("shows")]);
    for scenario in scenarios {
        table.row([scenario.name.clone().into(), scenario.about.clone().into()]);
    }
    table.text()
}

pub(super) fn render(report: &SimulateReport, format: Format) -> String {
    let days = if report.days == 1.0 { "a day".into() } else { format!("{} days", report.days) };
    let heading = format!(
        "{}: {} guests, {days} each, seed {}. {}",
        report.scenario,
        count(report.guests),
        Seed(report.seed),
        report.about
    );
    let mut text = wrap(&heading, width()) + "\n\n";
    text += &off(report).render(format);
    text += "\n";
    text += &right(report).render(format);
    for one in &report.disciplines {
        for line in sentences(one) {
            text += &format!("\n{}\n", wrap(&line, width()));
        }
    }
    text
}

fn percent(share: f64) -> Cell {
    Cell::figure_as(format!("{:.1}", share * 100.0), share)
}

fn off(report: &SimulateReport) -> ReportTable {
    let columns = ["1 ms", "100 ms", "1 s"];
    let ever = columns.map(|size| Column::figures(format!("ever off\n> {size}"), "%"));
    let time = columns.map(|size| Column::figures(format!("of the time\n> {size}"), "%"));
    let columns = [Column::names("discipline")].into_iter().chain(ever).chain(time);
    let mut table = ReportTable::new("Guests that were off", columns);
    for one in &report.disciplines {
        let shares = one.ever_off.into_iter().chain(one.time_off).map(percent);
        table.row([Cell::from(one.discipline.name())].into_iter().chain(shares));
    }
    table
}

fn right(report: &SimulateReport) -> ReportTable {
    let title = format!("Faults that put a clock off by more than {}", seconds(report.right_s));
    let time = |s: Option<f64>| s.map_or_else(Cell::none, |s| Cell::figure_as(seconds(s), s));
    let number = |number: u64| Cell::figure_as(count(number), number as f64);
    ReportTable::with_rows(
        title,
        &report.disciplines,
        [
            (Column::names("discipline"), &|one| one.discipline.name().into()),
            (Column::figures("right\nagain", ""), &|one| number(one.recovered)),
            (Column::figures("not\nright", ""), &|one| number(one.never_right)),
            (Column::figures("half of them\nwithin", ""), &|one| {
                time(one.right_after_s.map(|after_s| after_s[0]))
            }),
            (Column::figures("95 %\nwithin", ""), &|one| {
                time(one.right_after_s.map(|after_s| after_s[1]))
            }),
            (Column::figures("longest", ""), &|one| time(Some(one.longest_wrong_s))),
            (Column::figures("error at end,\nmedian", ""), &|one| {
                time(one.last_error_s.map(|error_s| error_s[0]))
            }),
        ],
    )
}

/// The worst guest and why, and what was broken.
fn sentences(one: &DisciplineReport) -> Vec<String> {
    let name = one.discipline.name();
    let mut all = Vec::new();
    if let Some(worst) = &one.worst {
        let after = worst.after.map_or("before any fault".into(), |what| {
            format!("after a fault of kind {}", what.name())
        });
        let way = if worst.error_s < 0.0 { "behind" } else { "ahead" };
        all.push(format!(
            "{name}: guest {} was furthest off: {} {way} {} into the run, {after}.",
            worst.guest,
            seconds(worst.error_s.abs()),
            seconds(worst.at_s),
        ));
    }
    if one.broken > 0 {
        all.push(format!("{name}: {} guests broke a promise:", count(one.broken)));
        all.extend(one.violations.iter().take(3).map(|broken| {
            format!(
                "  guest {}: {} at {}: {}, at most {}",
                broken.guest,
                broken.promise.name(),
                seconds(broken.at_s),
                seconds(broken.seen_s),
                seconds(broken.allowed_s),
            )
        }));
    }
    all
}

/// How much was simulated, and how fast.
pub(super) fn rate(of: &Of, done: &Fleets) -> String {
    let guests: u64 = done.iter().map(|one| one.fleet.guests.len() as u64).sum();
    let events: u64 = done.iter().map(|one| one.fleet.counts.events()).sum();
    let took_s: f64 = done.iter().map(|one| one.took.as_secs_f64()).sum();
    let days = guests as f64 * of.days;
    let whole = if done.iter().all(|one| one.is_whole) {
        String::new()
    } else {
        format!("stopped after {guests} guests, which alone the figures cover; ")
    };
    format!(
        "{whole}{} guest-days with {} events in {}: {} guest-days a minute",
        count(days.round() as u64),
        count(events),
        seconds(took_s),
        count((days / took_s.max(1e-9) * 60.0).round() as u64),
    )
}
