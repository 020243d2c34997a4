//! How much of each of the lab's experiments could be measured, row by row.

use std::fmt::Write as _;

use super::paragraph;
use crate::deeds::agreement::{ALL, NOT_MEASURED};
use crate::visit::{End, Visit};

/// What is between the name of an experiment and its counts, where some of it was measured.
const CHECKS: &str = "has checks";

/// A line for each row that ran one.
pub(super) fn measured(text: &mut String, visits: &[Visit]) {
    let lines: Vec<(&str, Vec<Count>)> = visits
        .iter()
        .map(|visit| (visit.row.as_str(), counts(visit)))
        .filter(|(_, counts)| !counts.is_empty())
        .collect();
    if lines.is_empty() {
        return;
    }
    text.push_str("\n## Measured by the lab\n\n");
    paragraph(
        text,
        "",
        "Of the checks of each of the lab's experiments those that were measured, of all. What \
         was not says why in the row's result (validation/results/rows): what the lab leaves to its \
         operator, what the host's KVM lacks, or a vCPU that this system ran too late. `cost` is \
         left out: an emulated instruction costs what its emulation does.",
    );
    let _ = write!(text, "\n| row | {} |\n", ALL.join(" | "));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(ALL.len()));
    for (row, counts) in lines {
        let cells = ALL.map(|name| {
            let count = counts.iter().find(|count| count.experiment == name);
            count.map_or("–".to_owned(), |one| format!("{} of {}", one.measured, one.all))
        });
        let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
    }
}

/// Of one experiment.
#[derive(Debug, PartialEq, Eq)]
struct Count {
    experiment: String,
    measured: usize,
    all: usize,
}

/// What the deed said of each (`deeds/agreement.rs`): in a check, or in what it skipped.
fn counts(visit: &Visit) -> Vec<Count> {
    let End::Ran(ran) = &visit.end else { return Vec::new() };
    let checks = ran.done.checks.iter().filter_map(|check| {
        let experiment = check.what.strip_suffix(CHECKS)?.trim_end_matches([':', ' ']);
        count(&format!("{experiment}: {}", check.found))
    });
    checks.chain(ran.done.skipped.iter().filter_map(|one| count(&one.why))).collect()
}

/// `lab ticks: 4, and 8 not measured; why`
fn count(text: &str) -> Option<Count> {
    let (experiment, rest) = text.strip_prefix("lab ")?.split_once(": ")?;
    let (measured, rest) = rest.split_once(", and ")?;
    let (not_measured, _) = rest.split_once(&format!(" {NOT_MEASURED}"))?;
    let (measured, not_measured): (usize, usize) =
        (measured.parse().ok()?, not_measured.parse().ok()?);
    Some(Count { experiment: experiment.to_owned(), measured, all: measured + not_measured })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Check;
    use crate::deeds::Done;
    use crate::outcome::Unavailable;

    #[test]
    fn the_page_has_what_was_measured_of_each_experiment() {
        let mut done = Done::default();
        let found = "4, and 8 not measured; lab: delay, vCPU held: not measured: not run";
        done.checks.push(Check::new("lab ticks: has checks", found, true));
        done.checks.push(Check::new("lab: /dev/kvm is there, by kvm_amd", "1, and 2", true));
        done.skipped.push(Unavailable::new("lab agreement: 0, and 2 not measured; x", "y"));
        let mut text = String::new();
        measured(&mut text, &[Visit::ran("a", done), Visit::ran("b", Done::default())]);
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert!(lines[2].starts_with("| row | agreement | conformance |"), "{text}");
        assert_eq!(lines[0], "| a | 0 of 2 | – | – | – | – | – | – | 4 of 12 |");
        let mut text = String::new();
        measured(&mut text, &[Visit::ran("b", Done::default())]);
        assert_eq!(text, "", "no row ran the lab");
    }
}
