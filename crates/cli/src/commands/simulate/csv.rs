//! A row for each guest, for programs: times in s.

use super::Fleets;
use crate::output::table::{Cell, Column, ReportTable};

pub(super) fn render(done: &Fleets) -> String {
    let figures =
        ["worst", "worst at", "last", "off 1 ms for", "off 100 ms for", "off 1 s for", "slowest"];
    let columns = [Column::names("discipline"), Column::figures("guest", "")]
        .into_iter()
        .chain(figures.map(|heading| Column::figures(heading, "s")))
        .chain(["worst after", "broken"].map(Column::names));
    let mut table = ReportTable::new("", columns);
    for one in done {
        for guest in &one.fleet.guests {
            let times = [guest.worst_ns, guest.worst_at_ns, guest.last_ns]
                .into_iter()
                .chain(guest.off_for_ns)
                .chain([guest.slowest_ns])
                .map(|ns| Cell::figure(ns as f64 / 1e9, 9));
            let names = [
                guest.worst_after.map_or("", |kind| kind.name()),
                guest.violation.map_or("", |broken| broken.promise.name()),
            ];
            let first = [one.corrector.name().into(), Cell::figure(guest.guest as f64, 0)];
            table.row(first.into_iter().chain(times).chain(names.map(Cell::from)));
        }
    }
    table.csv()
}
