//! The map as tables.

use daemon::words::date_and_time;
use fleet::errormap::{AheadBounds, LoopStep, Map, MapFinding, Node};
use instruments::figures::{signed, time};

use crate::output::table::{Cell, Column, ReportTable, width, wrap};
use crate::output::{Format, printable};

/// Rows for people; the other forms have all.
const SHOWN: usize = 20;
/// Names of a list.
const NAMED: usize = 8;

/// For all forms but JSON.
pub(super) fn render(map: &Map, format: Format, now_ns: i64) -> String {
    let table = table(map, format, now_ns);
    if format == Format::Csv {
        return table.render(format);
    }
    let mut text = String::new();
    for finding in &map.findings {
        let said = format!("{} {}", sentence(finding), proof(finding)).trim_end().to_owned();
        text += &match format {
            Format::Markdown => format!("- {said}\n"),
            _ => wrap(&said, width()) + "\n",
        };
    }
    if map.findings.is_empty() {
        text += "No clock is certainly off, and none contradicts the others.\n";
    }
    text + "\n" + &table.render(format)
}

fn table(map: &Map, format: Format, now_ns: i64) -> ReportTable {
    let shown = if format == Format::Text { SHOWN } else { map.nodes.len() };
    let figures = |heading| Column::figures(heading, if format == Format::Csv { "ns" } else { "" });
    let cell = |node: &Node, pick: fn(AheadBounds) -> i64| {
        let ns = node.ahead.map(|ahead| pick(ahead) as f64);
        ns.map_or_else(Cell::none, |ns| Cell::figure_as(signed(ns, time), ns))
    };
    let mut table = ReportTable::with_rows(
        "",
        map.nodes.iter().take(shown),
        [
            (Column::names("clock"), &|node| shortened(&node.name).into()),
            (figures("ahead by"), &|node| cell(node, |ahead| ahead.estimate_ns)),
            (figures("at least"), &|node| cell(node, |ahead| ahead.min_ns)),
            (figures("at most"), &|node| cell(node, |ahead| ahead.max_ns)),
            (Column::figures("peers", ""), &|node| Cell::figure(node.peers.into(), 0)),
        ],
    );
    if let Some(more) = map.nodes.len().checked_sub(shown).filter(|more| *more > 0) {
        table.note(format!("{more} more clocks are nearer to the median; --format csv lists all."));
    }
    table.note(format!(
        "Relative to the median of {} clocks, from {} pairs. Assumes that a clock's rate is off \
         by at most {} ppm, and that answers which nothing contradicts are true.",
        map.nodes.iter().filter(|node| node.ahead.is_some()).count(),
        map.links.len(),
        map.drift_ppm,
    ));
    let ago_ns = now_ns.saturating_sub(map.as_of_ns);
    table.note(format!(
        "As of {} UTC by the median clock, {} {} by this machine's clock.",
        date_and_time(map.as_of_ns.unsigned_abs()),
        time(ago_ns.unsigned_abs() as f64),
        if ago_ns < 0 { "from now" } else { "ago" },
    ));
    if let Some(utc) = map.median_ahead_of_utc {
        table.note(format!(
            "The median is ahead of UTC by {} to {}, according to the nodes' own statements.",
            signed(utc.min_ns as f64, time),
            signed(utc.max_ns as f64, time),
        ));
    }
    let uneven = map.links.iter().filter(|link| link.asymmetry.is_some()).count();
    if uneven > 0 {
        table.note(format!(
            "{uneven} links certainly take longer in one direction; --format json has their bounds."
        ));
    }
    table
}

/// A row has room for its figures.
fn shortened(name: &str) -> String {
    let name = printable(name);
    match name.char_indices().nth(31) {
        Some((end, _)) if name.chars().count() > 32 => format!("{}…", &name[..end]),
        _ => name,
    }
}

/// A finding in a sentence.
pub(super) fn sentence(finding: &MapFinding) -> String {
    let said = match finding {
        MapFinding::Off { node, ahead } => off(node, *ahead),
        MapFinding::Contradiction { suspects, is_only: true, .. } => format!(
            "A clock contradicts the others: its node answers from more than one clock, or the \
             clock was set, or drifts faster than --drift-ppm. If only one does, it is {}.",
            names(suspects)
        ),
        MapFinding::Contradiction { suspects, .. } => format!(
            "Clocks contradict each other: {} may answer from more than one clock, or the clock \
             was set, or drifts faster than --drift-ppm.",
            names(suspects)
        ),
        MapFinding::FalseClaim { suspects, .. } => format!(
            "The nodes' statements about UTC contradict each other: the statement of {}, or an \
             answer of some clock, is wrong.",
            names(suspects)
        ),
        MapFinding::NotSolved => {
            "The map has no bounds: too many samples contradict each other.".into()
        }
        MapFinding::Changed { node, peer } => {
            format!("A clock of {node} or {peer} was set, or drifts faster than --drift-ppm.")
        }
        MapFinding::Apart { node } => {
            format!("{node} cannot be compared: no pair connects it with most of the others.")
        }
        _ => String::new(),
    };
    printable(&said)
}

/// The loop that shows it: `b is ahead of a by at most 1 ms, ...; by -3 ms`.
pub(super) fn proof(finding: &MapFinding) -> String {
    match finding {
        MapFinding::Contradiction { shown_by, .. } | MapFinding::FalseClaim { shown_by, .. } => {
            printable(&steps(shown_by))
        }
        _ => String::new(),
    }
}

fn off(node: &str, ahead: AheadBounds) -> String {
    let AheadBounds { estimate_ns, min_ns, max_ns } = ahead;
    let (direction, least_ns, most_ns) =
        if min_ns > 0 { ("ahead of", min_ns, max_ns) } else { ("behind", -max_ns, -min_ns) };
    format!(
        "{node} is {direction} the others by {}: {} to {}.",
        time(estimate_ns.abs() as f64),
        time(least_ns as f64),
        time(most_ns as f64)
    )
}

fn names(suspects: &[String]) -> String {
    match suspects {
        [one] => one.clone(),
        several => {
            let named =
                several.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = several.len().saturating_sub(NAMED);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("one of {named}{rest}")
        }
    }
}

fn steps(all: &[LoopStep]) -> String {
    let step = |step: &LoopStep| {
        format!(
            "{} is ahead of {} by at most {}",
            step.to,
            step.from,
            signed(step.most_ns as f64, time)
        )
    };
    let said: Vec<String> = all.iter().take(NAMED).map(step).collect();
    let sum = all.iter().map(|step| i128::from(step.most_ns)).sum::<i128>();
    let more = if all.len() > NAMED { ", and so on" } else { "" };
    format!(
        "{}{more}: around this loop a clock would be ahead of itself by {}.",
        said.join(", "),
        signed(sum as f64, time)
    )
}

#[cfg(test)]
mod tests {
    use fleet::errormap::{Samples, Settings, solve};

    use super::*;

    fn map() -> Map {
        let mut samples = Samples::default();
        let pairs = r#"
            {"from":"a","to":"b","t1_ns":1000,"t2_ns":201000,"t3_ns":201000,"t4_ns":401000}
            {"from":"b","to":"c","t1_ns":1000,"t2_ns":5201000,"t3_ns":5201000,"t4_ns":401000}
            {"from":"c","to":"a","t1_ns":5001000,"t2_ns":201000,"t3_ns":201000,"t4_ns":5401000}"#;
        assert_eq!(exporter::pair::read(pairs.as_bytes(), &mut samples).unwrap().taken, 3);
        solve(&samples, &Settings { drift_ppm: 0.0, ..Settings::default() })
    }

    #[test]
    fn the_worst_is_first_and_lines_are_no_longer_than_80() {
        let text = render(&map(), Format::Text, 60_000_000_000);
        assert!(text.starts_with("c is ahead of the others by 5.00 ms: 4.80 ms to 5.20 ms.\n"));
        let first = text.lines().skip_while(|line| !line.starts_with('─')).nth(1).unwrap();
        assert!(first.starts_with("c ") && first.contains("+5.00 ms"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("As of 1970-01-01 00:00:00.000 UTC by the"), "{text}");
        assert!(text.contains("60.0 s ago"), "{text}");
        let csv = render(&map(), Format::Csv, 0);
        assert!(csv.contains("c,5000000,4800000,5200000,2\r\n"), "{csv}");
    }

    #[test]
    fn nobody_is_accused_for_certain() {
        let said = |is_only| {
            sentence(&MapFinding::Contradiction {
                suspects: vec!["a".into()],
                is_only,
                shown_by: vec![],
            })
        };
        assert!(said(true).ends_with("If only one does, it is a."), "{}", said(true));
        assert!(said(false).contains("a may answer"), "{}", said(false));
        let claim = MapFinding::FalseClaim { suspects: vec!["a".into()], shown_by: vec![] };
        assert!(sentence(&claim).contains("or an answer of some clock"));
    }

    #[test]
    fn a_name_is_no_longer_than_its_column() {
        assert_eq!(shortened(&"ü".repeat(32)), "ü".repeat(32));
        assert_eq!(shortened(&"ü".repeat(33)), "ü".repeat(31) + "…");
    }
}
