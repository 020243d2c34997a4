//! The study as docs/validation/alerts.md.

use std::fmt::Write as _;

use crate::faults::Since;
use crate::rules::RULES;
use crate::study::Cell;

/// Of the faults that are to be found, this share is, in the stated time.
const RECALL: f64 = 0.99;

/// False alarms in 1,000 days.
const FALSE_PER_1000: f64 = 1.0;

/// Rules of others, beside which ours stand.
const OTHERS: [&str; 3] = ["NodeClockSkewDetected", "NodeClockNotSynchronising", "ChronyBound"];

/// The share of faults that was found in time.
fn recall(cell: &Cell) -> f64 {
    cell.took_s.len() as f64 / cell.counted as f64
}

/// Cells whose recall is below the bar, and rules with too many false alarms.
pub fn missed(cells: &[Cell]) -> (Vec<String>, Vec<String>) {
    let below = cells.iter().filter(|cell| cell.counted > 0 && recall(cell) < RECALL);
    let below = below.map(|cell| format!("{}, {}", cell.fault.name, cell.on.name));
    let loud = RULES.0.iter().enumerate().filter(|(index, rule)| {
        !OTHERS.contains(&rule.name) && false_per_1000(cells, *index) > FALSE_PER_1000
    });
    (below.collect(), loud.map(|(_, rule)| rule.name.to_owned()).collect())
}

fn false_per_1000(cells: &[Cell], rule: usize) -> f64 {
    let count: u64 = cells.iter().map(|cell| cell.false_alarms[rule]).sum();
    count as f64 * 1000.0 / quiet_days(cells)
}

fn quiet_days(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| cell.quiet_days).sum()
}

/// Quantile of times, as text.
fn quantile(times_s: &[f64], share: f64) -> String {
    let mut sorted = times_s.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or("–".to_owned(), |s| time(*s))
}

fn time(s: f64) -> String {
    if s < 120.0 { format!("{s:.0} s") } else { format!("{:.1} min", s / 60.0) }
}

/// Faults and what found them.
pub fn recall_table(cells: &[Cell]) -> String {
    let mut text = String::from(
        "| fault | clock kept by | to be found | by | in | found | without a consumer | without \
         info | median, 99 % | SkewDetected | NotSynchronising | chrony bound |\n\
         | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for cell in cells {
        let (fault, on) = (cell.fault.name, cell.on.name);
        if cell.counted == 0 {
            let _ = writeln!(text, "| {fault} | {on} | 0 of {} | | | | | | | | | |", cell.runs);
            continue;
        }
        let expected = cell.fault.expected(cell.on);
        let by: Vec<_> = expected.by.iter().map(|name| rule(name)).collect();
        let share = |count: u64| count as f64 * 100.0 / cell.counted as f64;
        let others = OTHERS.map(|name| {
            // It has no series.
            if name == "ChronyBound" && !cell.on.has_chronyd() {
                return "–".to_owned();
            }
            let index = RULES.0.iter().position(|rule| rule.name == name).unwrap_or(0);
            format!("{:.1} %", share(cell.by_rule[index].0))
        });
        let since = if expected.since == Since::Begin { "" } else { ", once it goes on" };
        let _ = writeln!(
            text,
            "| {fault} | {on} | {} of {} | {} | {} min{since} | {:.2} % | {:.2} % | {:.2} % | {}, {} | {} |",
            cell.counted,
            cell.runs,
            by.join(", "),
            expected.within_s / 60,
            recall(cell) * 100.0,
            share(cell.without_consumer),
            share(cell.without_info),
            quantile(&cell.took_s, 0.5),
            quantile(&cell.took_s, 0.99),
            others.join(" | "),
        );
    }
    text
}

/// A rule's name, short, and whether it is for information only.
fn rule(name: &str) -> String {
    let is_info = RULES.0.iter().any(|rule| rule.name == name && rule.is_info);
    let mark = if is_info { " (info)" } else { "" };
    format!("{}{mark}", name.trim_start_matches("Parachron"))
}

/// Rules, and how often they fired though nothing was wrong.
pub fn false_table(cells: &[Cell]) -> String {
    let mut text = format!(
        "| rule | false alarms in {:.0} quiet days | in 1,000 days |\n| --- | ---: | ---: |\n",
        quiet_days(cells)
    );
    for (index, rule) in RULES.0.iter().enumerate() {
        let count: u64 = cells.iter().map(|cell| cell.false_alarms[index]).sum();
        let rate = false_per_1000(cells, index);
        let _ = writeln!(text, "| {} | {count} | {rate:.2} |", rule.name);
    }
    text
}

/// Each rule in each cell: in what share of the faults that counted it fired, if in any.
pub fn matrix(cells: &[Cell]) -> String {
    let mut text = String::from(
        "| fault | clock kept by | rules that fired, and after how long |\n| --- | --- | --- |\n",
    );
    for cell in cells.iter().filter(|cell| cell.counted > 0) {
        let fired = RULES.0.iter().zip(&cell.by_rule).filter(|(_, (count, _))| *count > 0);
        let words = fired.map(|(rule, (count, sum_s))| {
            let share = *count as f64 * 100.0 / cell.counted as f64;
            let name = rule.name.trim_start_matches("Parachron");
            format!("{name} {share:.1} % ({})", time(sum_s / *count as f64))
        });
        let words: Vec<_> = words.collect();
        let _ = writeln!(text, "| {} | {} | {} |", cell.fault.name, cell.on.name, words.join(", "));
    }
    text
}
