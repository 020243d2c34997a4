//! The map as tables.

use facts::parse::{printable, wrap};
use fleet_map::errormap::{AheadBounds, LoopStep, Map, MapFinding, Node};
use instruments::figures::{signed, time};

use pvclock::units::calendar;

/// Rows for people; the JSON has all.
const SHOWN: usize = 20;
/// Names of a list.
const NAMED: usize = 8;

/// People paste tables into tickets and mails.
const WIDTH: usize = 80;
const HEADINGS: [&str; 5] = ["clock", "ahead by", "at least", "at most", "peers"];

/// For people: what is beyond doubt first.
pub(super) fn render(map: &Map, now_ns: i64) -> String {
    let is_off = |finding: &&MapFinding| {
        matches!(finding, MapFinding::Off { .. } | MapFinding::OffFromPeers { .. })
    };
    let (off, doubtful): (Vec<_>, Vec<_>) = map.findings.iter().partition(is_off);
    let mut text = String::new();
    for finding in off.into_iter().chain(doubtful) {
        let sentences = format!("{} {}", sentence(finding), proof(finding));
        text += &(wrap(sentences.trim_end(), WIDTH) + "\n");
    }
    if map.findings.is_empty() {
        text += "No clock is certainly off, and none contradicts the others.\n";
    }
    text += "\n";
    text += &table(map);
    notes(map, now_ns).iter().for_each(|note| text += &(wrap(note, WIDTH) + "\n"));
    text
}

/// Columns of names and figures, two blanks apart, above them a rule.
fn table(map: &Map) -> String {
    let mut rows = vec![HEADINGS.map(String::from)];
    rows.extend(map.nodes.iter().take(SHOWN).map(cells));
    let length = |cell: &String| cell.chars().count();
    let widths: [usize; 5] = std::array::from_fn(|column| {
        rows.iter().map(|row| length(&row[column])).max().unwrap_or_default()
    });
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let [name, figures @ ..] = row;
        text += &format!("{name:<width$}", width = widths[0]);
        for (figure, width) in figures.iter().zip(&widths[1..]) {
            text += &format!("  {figure:>width$}");
        }
        text += "\n";
        if index == 0 {
            text += &("─".repeat(widths.iter().sum::<usize>() + 2 * (HEADINGS.len() - 1)) + "\n");
        }
    }
    text
}

fn cells(node: &Node) -> [String; 5] {
    let figure = |pick: fn(AheadBounds) -> i64| {
        node.ahead.map_or("–".to_owned(), |ahead| signed(pick(ahead) as f64, time))
    };
    [
        shortened(&node.name),
        figure(|ahead| ahead.estimate_ns),
        figure(|ahead| ahead.min_ns),
        figure(|ahead| ahead.max_ns),
        node.peers.to_string(),
    ]
}

fn notes(map: &Map, now_ns: i64) -> Vec<String> {
    let mut notes = Vec::new();
    if map.nodes.len() > SHOWN {
        let more = map.nodes.len() - SHOWN;
        notes
            .push(format!("{more} more clocks are nearer to the median; --format json lists all."));
    }
    notes.push(format!(
        "Relative to the median of {} clocks, from {} pairs. Assumes that a clock's rate is off \
         by at most {} ppm, and that answers which nothing contradicts are true.",
        map.nodes.iter().filter(|node| node.ahead.is_some()).count(),
        map.links.len(),
        map.drift_ppm,
    ));
    let ago_ns = now_ns.saturating_sub(map.as_of_ns);
    notes.push(format!(
        "As of {} UTC by the median clock, {} {} by this machine's clock.",
        date_and_time(map.as_of_ns.unsigned_abs()),
        time(ago_ns.unsigned_abs() as f64),
        if ago_ns < 0 { "from now" } else { "ago" },
    ));
    if let Some(utc) = map.median_ahead_of_utc {
        notes.push(format!(
            "The median is ahead of UTC by {} to {}, according to the nodes' own statements.",
            signed(utc.min_ns as f64, time),
            signed(utc.max_ns as f64, time),
        ));
    }
    let uneven = map.links.iter().filter(|link| link.asymmetry.is_some()).count();
    if uneven > 0 {
        notes.push(format!(
            "{uneven} links certainly take longer in one direction; --format json has their bounds."
        ));
    }
    notes
}

/// `2026-11-22 19:40:12.250`.
fn date_and_time(unix_ns: u64) -> String {
    let ms = unix_ns / 1_000_000;
    let calendar::Date { year, month, day } = calendar::date((ms / 86_400_000).into());
    let (h, min, s) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{min:02}:{s:02}.{:03}", ms % 1000)
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
        MapFinding::Off { node, ahead } => {
            off(node, "the others", ahead.estimate_ns, (ahead.min_ns, ahead.max_ns))
        }
        MapFinding::OffFromPeers { node, ahead, peers } => {
            let (others, middle_ns) =
                (format!("each of {peers} others"), ahead.min_ns.midpoint(ahead.max_ns));
            off(node, &others, middle_ns, (ahead.min_ns, ahead.max_ns))
        }
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

fn off(node: &str, others: &str, by_ns: i64, (min_ns, max_ns): (i64, i64)) -> String {
    let (direction, least_ns, most_ns) =
        if min_ns > 0 { ("ahead of", min_ns, max_ns) } else { ("behind", -max_ns, -min_ns) };
    let [by, least, most] = [by_ns.abs(), least_ns, most_ns].map(|ns| time(ns as f64));
    format!("{node} is {direction} {others} by {by}: {least} to {most}.")
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
    use fleet_map::errormap::{Samples, Settings, solve};

    use super::*;

    fn map() -> Map {
        let mut samples = Samples::default();
        let pairs = r#"
            {"from":"a","to":"b","t1_ns":1000,"t2_ns":201000,"t3_ns":201000,"t4_ns":401000}
            {"from":"b","to":"c","t1_ns":1000,"t2_ns":5201000,"t3_ns":5201000,"t4_ns":401000}
            {"from":"c","to":"a","t1_ns":5001000,"t2_ns":201000,"t3_ns":201000,"t4_ns":5401000}"#;
        assert_eq!(fleet_map::pair::read(pairs.as_bytes(), &mut samples).unwrap().taken, 3);
        solve(&samples, &Settings { drift_ppm: 0.0, ..Settings::default() })
    }

    #[test]
    fn the_worst_is_first_and_lines_are_no_longer_than_80() {
        let text = render(&map(), 60_000_000_000);
        assert!(text.starts_with("c is ahead of the others by 5.00 ms: 4.80 ms to 5.20 ms.\n"));
        let first = text.lines().skip_while(|line| !line.starts_with('─')).nth(1).unwrap();
        assert!(first.starts_with("c ") && first.contains("+5.00 ms"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("As of 1970-01-01 00:00:00.000 UTC by the"), "{text}");
        assert!(text.contains("60.0 s ago"), "{text}");
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
